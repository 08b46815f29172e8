"""The judge of validation logs passes what it should and, above all, fails when it should."""

from pathlib import Path

import pytest

from tests.validation_log import UnusableLogError, judge, main, read

ACTIVE = """\
UNASSIGNED-khronos-validation-createinstance-status-message(INFO / SPEC): msgNum: -671457468 - Validation Information: \
[ UNASSIGNED-khronos-validation-createinstance-status-message ] Object 0: handle = 0x1, type = \
VK_OBJECT_TYPE_INSTANCE; | MessageID = 0xd7fa5f44 | Khronos Validation Layer Active:
    Settings File: Found at vk_layer_settings.txt specified by environment variable (VK_LAYER_SETTINGS_PATH).
    Current Enables: VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION, \
VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT.
    Current Disables: None.
"""
NEWER_ACTIVE = """\
Validation Information: [ WARNING-CreateInstance-status-message ] | MessageID = 0x23dfd876
vkCreateInstance(): Khronos Validation Layer Active:
    Current Enables: VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT.
    Current Disables: None.
"""
WITHOUT_SYNCHRONIZATION = ACTIVE.replace("SYNCHRONIZATION_VALIDATION", "BEST_PRACTICES")
PROGRESS = "....                                                                     [100%]\n4 passed in 0.10s\n"
HAZARD = (
    ".SYNC-HAZARD-READ-AFTER-WRITE(ERROR / SPEC): msgNum: -455515022 - Validation Error: "
    "[ SYNC-HAZARD-READ-AFTER-WRITE ] Object 0: handle = 0x2, type = VK_OBJECT_TYPE_QUEUE; | MessageID = 0xe4d96472 | "
    "vkCmdDispatch: Hazard READ_AFTER_WRITE for VkBuffer 0x8\n"
)
VUID = (
    "VUID-vkCmdDispatch-None-02699(ERROR / SPEC): msgNum: 1 - Validation Error: [ VUID-vkCmdDispatch-None-02699 ] "
    "Object 0: handle = 0x3; | MessageID = 0x5 | The Vulkan spec says (registry.html#VUID-vkCmdDispatch-None-02699)\n"
)
NEWER_VUID = "Validation Error: [ VUID-vkCmdDispatch-None-08114 ] | MessageID = 0x30b6e267\nvkCmdDispatch(): some\n"
NEWER_HAZARD = "Validation Error: [ SYNC-HAZARD-READ-AFTER-WRITE ] | MessageID = 0xe4d96472\nvkCmdDispatch(): READ\n"
COPY_HAZARD = HAZARD.replace("vkCmdDispatch", "vkCmdCopyBuffer")
NAMELESS_ERROR = "X(ERROR / SPEC): msgNum: 2 - Validation Error: [ UNASSIGNED-DrawState-QueryNotReset ] Object 0\n"
WARNING = "X(WARN / SPEC): msgNum: 3 - Validation Warning: [ UNASSIGNED-something-slow ] Object 0\n"
UNKNOWN_FORM = "{'id': 'SYNC-HAZARD-WRITE-AFTER-WRITE'}\n"


@pytest.mark.parametrize("active", [ACTIVE, NEWER_ACTIVE], ids=["1.3.239", "1.4.309"])
def test_a_quiet_active_layer_is_clean_and_shows_no_hazard(active: str) -> None:
    assert judge("clean", active + PROGRESS) == (
        True,
        "as shipped: 0 hazards (0 of dispatches), 0 other errors, 0 warnings",
    )
    passed, sentence = judge("hazards", active + PROGRESS)
    assert not passed and "the layer saw no hazard between dispatches" in sentence


@pytest.mark.parametrize(
    "complaint", [HAZARD, COPY_HAZARD, VUID, NEWER_HAZARD, NEWER_VUID, NAMELESS_ERROR], ids=lambda text: text[:24]
)
def test_any_complaint_spoils_the_clean_arm(complaint: str) -> None:
    passed, sentence = judge("clean", ACTIVE + PROGRESS + complaint + PROGRESS)
    assert not passed
    assert "Validation Error: [" in sentence, "the complaint itself is shown"


def test_only_hazards_of_dispatches_satisfy_the_arm_without_barriers() -> None:
    assert judge("hazards", ACTIVE + HAZARD * 3 + VUID)[0]
    assert judge("hazards", ACTIVE + COPY_HAZARD + NEWER_HAZARD)[0]
    assert not judge("hazards", ACTIVE + COPY_HAZARD + VUID + NAMELESS_ERROR + WARNING)[0]


def test_complaints_are_counted_once_each() -> None:
    verdict = read(ACTIVE + HAZARD * 3 + COPY_HAZARD + VUID * 2 + NEWER_VUID + NAMELESS_ERROR + WARNING)
    assert verdict.hazards == {"SYNC-HAZARD-READ-AFTER-WRITE": 4}
    assert verdict.dispatch_hazards.total() == 3
    assert verdict.errors.total() == 4 and verdict.errors["VUID-vkCmdDispatch-None-02699"] == 2
    assert verdict.warnings.total() == 1


def test_a_warning_alone_is_clean() -> None:
    assert judge("clean", ACTIVE + WARNING)[0]


@pytest.mark.parametrize("expectation", ["clean", "hazards"])
@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "not loaded"),
        (PROGRESS, "not loaded"),
        (HAZARD, "not loaded"),
        (WITHOUT_SYNCHRONIZATION + HAZARD, "without synchronization validation"),
        (ACTIVE + UNKNOWN_FORM, "in a form that this script does not know"),
    ],
)
def test_a_log_that_cannot_tell_satisfies_neither_arm(expectation: str, log: str, reason: str) -> None:
    with pytest.raises(UnusableLogError, match=reason):
        read(log)
    passed, sentence = judge(expectation, log)
    assert not passed and reason in sentence


def test_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_text(ACTIVE + PROGRESS)
    assert main(["clean", str(path)]) == 0
    assert "validation: as shipped: 0 hazards" in capsys.readouterr().out
    assert main(["hazards", str(path)]) == 1
    assert main(["hazard", str(path)]) == main([]) == 2
