"""Pages in a headless Chromium: a picture of a page, and whether its words can be read where they stand."""

from __future__ import annotations

import html
import json
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 1280

# Run inside the page: which words of one drawing touch, and which leave their drawing or their box.
LOOK = """<script>addEventListener('load', () => {
  const found = {texts: 0, touching: [], outside: [], requests: performance.getEntriesByType('resource').length};
  found.wide = document.documentElement.scrollWidth;
  for (const svg of document.querySelectorAll('svg')) {
    const paper = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect(), t]);
    found.texts += texts.length;
    texts.forEach(([words, a, text], i) => {
      if (a.left < paper.left || a.right > paper.right || a.top < paper.top || a.bottom > paper.bottom)
        found.outside.push(words);
      const box = text.parentNode.tagName === 'g' && text.parentNode.querySelector(':scope > rect');
      if (box) {
        const r = box.getBoundingClientRect();
        if (a.left < r.left || a.right > r.right) found.outside.push(words);
      }
      for (const [others, b] of texts.slice(i + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) found.touching.push([words, others]);
    });
  }
  const out = document.createElement('pre'); out.id = 'found'; out.textContent = JSON.stringify(found);
  document.body.append(out);
})</script>"""


@cache
def browser() -> str:
    """The command that starts the browser, which is unpacked first where it is not there yet."""
    done = subprocess.run([ROOT / "script" / "browser"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _run(*arguments: str) -> str:
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = subprocess.run([browser(), offline, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def looked_at(page: Path, height: int = 1400) -> dict:
    """What `LOOK` finds on a page 1280 px wide."""
    copy = page.with_name(f"looked-at-{page.name}")
    copy.write_text(page.read_text() + LOOK)
    text = _run("--dump-dom", f"--window-size={WIDTH},{height}", copy.as_uri())
    match = re.search(r'<pre id="found">(.*?)</pre>', text, re.S)
    assert match is not None, "the page's own script did not run"
    return json.loads(html.unescape(match[1]))


def picture(page: Path, name: str, height: int = 1400, dark: bool = False) -> Path:
    """A screenshot of a page, kept in build/screenshots."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.png"
    target.unlink(missing_ok=True)
    dark_flag = ["--blink-settings=preferredColorScheme=0"] if dark else []
    _run(f"--screenshot={target}", "--hide-scrollbars", f"--window-size={WIDTH},{height}", *dark_flag, page.as_uri())
    return target
