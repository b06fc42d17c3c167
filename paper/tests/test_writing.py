"""Files are replaced whole, and a failure is one sentence."""

import pytest

from bbalpha_paper.writing import write_text, writing


def test_a_file_is_replaced_whole_in_a_folder_that_is_made(tmp_path):
    file = tmp_path / "new" / "page.md"
    write_text(file, "α")
    write_text(file, "β")
    assert file.read_text("utf-8") == "β"
    assert [path.name for path in file.parent.iterdir()] == ["page.md"]


def test_a_failure_is_one_sentence_with_its_reason(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=r"Could not write .*taken/page\.md: .+\.$"):
        write_text(tmp_path / "taken" / "page.md", "text")
    with (
        pytest.raises(OSError, match=r"Could not write .*page\.md: no space left"),
        writing(tmp_path / "page.md"),
    ):
        raise OSError(28, "No space left on device")
