"""Facts about the picture of a fit."""


def test_the_picture_is_there(folder):
    data = (folder / "prices.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) > 20_000
