"""`slimpack data inspect --show`: documents as text, with what the loss counts marked."""

import pytest
from chat_data import CHATML, STYLES, Style, make_folder, write_objects
from slimpack import data_show
from text_data import build, write_lines

CHATS = [[{"role": "user", "content": "the 日本"}, {"role": "assistant", "content": "sat 😀"}],
         [{"role": "user", "content": "a\tb"}, {"role": "assistant", "content": "c\x1b[1m"},
          {"role": "user", "content": "é"}, {"role": "assistant", "content": "on"}]]


@pytest.fixture(name="shown")
def fixture_shown(tmp_path, capsys):
    """Exit code, output and errors of the command."""
    def shown(*arguments):
        capsys.readouterr()
        try:
            code = data_show.main([str(word) for word in arguments])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()
    return shown


@pytest.fixture(name="chats")
def fixture_chats(tmp_path):
    """(prefix, model's folder)."""
    model = make_folder(tmp_path / "model", STYLES["smollm2"], True)
    file = write_objects(tmp_path / "in.jsonl", [{"messages": chat} for chat in CHATS])
    assert build("--chat", "--from", file, "--tokenizer", model, "--out", tmp_path / "c", "--processes", 1) == 0
    return tmp_path / "c", model


def test_targets_are_marked(shown, chats):
    """A question mark stands for what a terminal would obey."""
    code, out, err = shown(chats[0], "--show", 9, "--tokenizer", chats[1])
    assert (code, err) == (0, "")
    first, second, rest = out.partition("document 1: ")
    lines = first.splitlines()
    assert lines[0].startswith("document 0: ") and lines[0].endswith(" targets")
    assert lines[1:] == ["<|im_start|>system", "You are small.<|im_end|>", "<|im_start|>user", "the 日本<|im_end|>",
                         "<|im_start|>assistant", "⟦sat 😀<|im_end|>⟧", "", ""]
    assert "\na\tb<|im_end|>\n" in rest and "\n⟦c?[1m<|im_end|>⟧\n" in rest and "\n⟦on<|im_end|>⟧\n" in rest
    assert shown(chats[0], "--show", 1, "--tokenizer", chats[1])[1] == first


def test_spaces_stay_where_a_decoder_takes_them_from_the_beginning_of_a_text(shown, tmp_path):
    style = Style("{% for m in messages %}{{ m.content }}{% endfor %}", CHATML, "", True)
    model = make_folder(tmp_path / "model", style)
    file = write_objects(tmp_path / "in.jsonl", [{"prompt": "the", "completion": " cat sat on"}])
    assert build("--chat", "--from", file, "--tokenizer", model, "--out", tmp_path / "c", "--processes", 1) == 0
    assert "the⟦ cat sat on⟧\n" in shown(tmp_path / "c", "--show", 1, "--tokenizer", model)[1]


def test_without_a_mask_every_token_but_the_first_is_marked(shown, tokenizer, tmp_path):
    file = write_lines(tmp_path / "in.jsonl", ["the cat"])
    assert build("--from", file, "--tokenizer", tokenizer, "--out", tmp_path / "c") == 0
    out = shown(tmp_path / "c", "--show", 1, "--tokenizer", tokenizer)[1]
    assert out.splitlines()[1] == "the⟦ cat<|endoftext|>⟧"


@pytest.mark.parametrize("words, parts", [
    (["absent", "--show", "1", "--tokenizer", "MODEL"], ["dataset 'absent.bin' cannot be read", "PREFIX.bin and PREFIX.idx"]),
    (["PREFIX", "--show", "0", "--tokenizer", "MODEL"], ["'0' is no number of documents", "give 1 to"]),
    (["PREFIX", "--show", "1"], ["--tokenizer"]),
    (["PREFIX", "--show", "1", "--tokenizer", "absent"], ["cannot read tokenizer 'absent'"]),
    (["PREFIX", "--show", "1", "--tokenizer", "OTHER"], ["document 0 of", "has token", "that it was built with"]),
    (["--show", "1", "--tokenizer", "MODEL"], ["PREFIX"]),
])
def test_what_cannot_be_shown_is_refused_in_one_line(shown, chats, tokenizer, words, parts):
    places = {"PREFIX": chats[0], "MODEL": chats[1], "OTHER": tokenizer}
    code, out, err = shown(*(places.get(word, word) for word in words))
    assert (code, out) == (2, "") and err.startswith("slimpack: ") and err.count("\n") == 1
    for part in parts:
        assert part in err


def test_a_mask_of_another_length_is_refused(shown, chats):
    with open(f"{chats[0]}.mask.bin", "ab") as file:
        file.write(b"\1")
    code, out, err = shown(chats[0], "--show", 1, "--tokenizer", chats[1])
    assert (code, out) == (2, "") and "c.mask" in err and err.count("\n") == 1
