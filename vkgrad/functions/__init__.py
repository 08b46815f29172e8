"""Everything that can be said of tensors with the primitives of `vkgrad.ops`.

A derived function is written once, in the file of its kind, and gets its gradients and its fusion from the primitives.
"""

from vkgrad.functions.activations import *
from vkgrad.functions.adaptive_pooling import *
from vkgrad.functions.comparing import *
from vkgrad.functions.convolution import *
from vkgrad.functions.creation import *
from vkgrad.functions.differences import *
from vkgrad.functions.elementwise import *
from vkgrad.functions.everyday import *
from vkgrad.functions.joining import *
from vkgrad.functions.linear import *
from vkgrad.functions.lookup import *
from vkgrad.functions.matrices import *
from vkgrad.functions.nans import *
from vkgrad.functions.pooling import *
from vkgrad.functions.reductions import *
from vkgrad.functions.resampling import *
from vkgrad.functions.scans import *
from vkgrad.functions.shapes import *
from vkgrad.functions.sorting import *
from vkgrad.functions.statistics import *
from vkgrad.functions.types import *
from vkgrad.functions.unpooling import *
from vkgrad.functions.warping import *
from vkgrad.spelling import answer_misspellings

answer_misspellings(globals())
