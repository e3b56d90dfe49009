"""Chat templates and special tokens against those of transformers, byte by byte and token by token."""

import json
import random
from pathlib import Path

import pytest
from generated import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from slimpack import InvalidInput
from slimpack.generation.chat import Chat
from slimpack.generation.texts import text_of
from text_data import bpe
from tokenizers import Tokenizer, decoders, models, normalizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA_2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}
{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}
{% set system_message = false %}{% endif %}
{% for message in loop_messages %}
    {% if loop.index0 == 0 and system_message != false %}
        {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + content.strip() + ' [/INST]' -}}
    {% elif message['role'] == 'assistant' %}
        {{- ' '  + content.strip() + ' ' + eos_token -}}
    {% endif %}
{% endfor %}
"""
TOOLS_OF_QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = message.reasoning_content if message.reasoning_content is defined else '' %}
        {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
                {{- call.function.arguments | tojson }}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif not loop.first or message.role != "system" %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

# Shapes that templates of published models have, and what makes Jinja environments differ.
TEMPLATES = {
    "chatml": CHATML,
    "llama 2": LLAMA_2,
    "tools of qwen": TOOLS_OF_QWEN,
    "tojson of messages": "{% for m in messages %}{{ m | tojson }}\n{% endfor %}",
    "tojson with an indent": "{{ messages | tojson(indent=4) }}",
    "tojson with separators": "{{ messages | tojson(separators=(',', ':'), sort_keys=true) }}",
    "tojson in ASCII": "{{ messages | tojson(ensure_ascii=True) }}",
    "tojson of tools": "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{{ messages[-1].content }}",
    "tools are none": "{% if tools is not none %}TOOLS{{ tools }}{% endif %}{{ messages[0].content }}",
    "tools are defined": "{{ tools is defined }} {{ documents is defined }} {{ documents is none }} {{ nothing is defined }}",
    "documents": "{% for d in documents or [] %}[{{ d.title }}]{{ d.text }}{% endfor %}{{ messages[0]['content'] }}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                  "{{ eos_token }}{% endgeneration %}{% else %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}",
    "generation with dashes": "{%- for m in messages %}\n  {%- generation %}\n  {{- m.content }}\n"
                              "  {%- endgeneration %}\n{%- endfor %}",
    "variables inside generation": "{% set a = 'x' %}{% for m in messages %}{% generation %}{% set a = m.role %}"
                                   "{{ a }}{% endgeneration %}{{ a }}{% endfor %}",
    "break": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
    "continue": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
    "date": "{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}",
    "date of the template": "{% if strftime_now is defined %}{% set date = strftime_now('%Y') %}{% else %}"
                            "{% set date = '26 Jul 2024' %}{% endif %}{{ date }}",
    "special tokens": "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}{{ sep_token is defined }}",
    "blocks with indents": "{% for m in messages %}\n    {% if m.content %}\n  {{ m.content }}\n    {% endif %}\n"
                           "{% endfor %}\n\n",
    "lines that end in two characters": "{% for m in messages %}\r\n{{ m.content }}\r\n{% endfor %}\r\n",
    "macro": "{% macro turn(role, text) %}<{{ role }}>{{ text | trim }}</{{ role }}>{% endmacro %}"
             "{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}",
    "namespace": "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
                 "{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }} {{ ns.found }}",
    "dict": "{{ dict(a=1, b=messages[0].role) | tojson }} {{ dict.fromkeys(['x', 'y'], 0) }}",
    "items": "{% for m in messages %}{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}",
    "dictsort": "{% for k, v in messages[0] | dictsort %}{{ k }}:{{ v }} {% endfor %}",
    "types": "{% for m in messages %}{{ m.content is string }} {{ m is mapping }} {{ m.n is defined }}{% endfor %}",
    "HTML is text": "{{ messages[0].content }} {{ '<&>' }} {{ messages[0].content | e }}",
    "slices and filters": "{{ messages[1:] | length }} {{ messages | map(attribute='role') | join(', ') }} "
                          "{{ messages[0].content | upper | replace('A', 'b') | indent(2) }}",
    "split and startswith": "{% for m in messages %}{% if m.content.startswith('a') %}{{ m.content.split(' ')[-1] }}"
                            "{% else %}{{ m.content[:3] }}{% endif %}{% endfor %}",
    "loop variables": "{% for m in messages %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
                      "{{ loop.cycle('a', 'b') }}{% endfor %}",
    "filtered loop": "{% for m in messages if m.role != 'system' %}{{ m.content }}{% else %}none{% endfor %}",
    "call block": "{% macro box(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) box(3) %}{{ y * 2 }}{% endcall %}",
    "set block": "{% set text %}\n {{ messages[0].content }}\n{% endset %}{{ text | trim }}|{{ text }}",
    "raise that is not reached": "{% if not messages %}{{ raise_exception('none') }}{% endif %}{{ messages[0].content }}",
    "reasoning": "{% for m in messages %}{{ m.reasoning_content }}{{ m.thinking }}{{ m.reasoning }}|{% endfor %}",
    "keys that are null": "{% for m in messages %}{{ m.tool_calls is defined }}{{ m | tojson }}{% endfor %}",
    "raw and comments": "{# no text #}{% raw %}{{ not this }}{% endraw %}{#- -#}  {{ messages[0].content -}}  \n",
    "numbers": "{{ 7 // 2 }} {{ 7 / 2 }} {{ 1e3 }} {{ true }} {{ none }} {{ [1, 'a'] }} {{ {'a': 1} }}",
}
MESSAGES = [
    {"role": "system", "content": "a <b> & 'c' \"d\" \u65e5\u672c\u8a9e \U0001f600"},
    {"role": "user", "content": " two\nlines\t </s> "},
    {"role": "assistant", "content": "x", "reasoning": "because", "tool_calls": [
        {"type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": [None, True, 0.5, "é"]}}}]},
    {"role": "user", "content": "and <|im_end|> then?", "tool_calls": None},
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "<it's>", "parameters": {
    "type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "array"}}}}}]
DOCUMENTS = [{"title": "T", "text": "an <old> text"}]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|im_end|>"}


@pytest.fixture(scope="module", name="tokenizer_json")
def fixture_tokenizer_json():
    library = bpe(["a b c", "two lines and then", "assistant user system"] * 9, 300)
    library.add_special_tokens(["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<unk>"])
    return library.to_str()


@pytest.fixture(name="folder")
def fixture_folder(tmp_path, tokenizer_json):
    """A folder that transformers reads a tokenizer from: these files, as JSON or as text."""
    def folder(files):
        (tmp_path / "tokenizer.json").write_text(tokenizer_json)
        for name, content in {"config.json": {"model_type": "llama", "vocab_size": 310}, **files}.items():
            file = tmp_path / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes((content if isinstance(content, str) else json.dumps(content)).encode())
        return tmp_path
    return folder


def config_of(template, **more):
    return {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL, "chat_template": template, **more}


def assert_same(folder, messages, variables=None, **more):
    theirs = AutoTokenizer.from_pretrained(folder)
    texts = text_of(Path(folder), 310)
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True,
                                      **{"chat_template" if k == "template" else k: v for k, v in more.items()},
                                      **variables or {})
    more["variables"] = variables
    assert Chat(folder, texts).text(messages, **more) == text
    assert Chat(folder, texts).tokens(messages, **more) == theirs(text, add_special_tokens=False).input_ids
    return text


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("more", [{}, {"tools": TOOLS, "documents": DOCUMENTS,
                                           "variables": {"enable_thinking": False}}], ids=["plain", "all"])
def test_templates_are_rendered_as_transformers_renders_them(folder, template, more):
    assert assert_same(folder({"tokenizer_config.json": config_of(template)}), MESSAGES, **more) is not None


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["</s>", " <s>\n", "'\"<&>"])
VALUES = st.recursive(st.none() | st.booleans() | st.integers(-2**40, 2**40) | st.floats(allow_nan=False) | TEXT,
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
                      max_leaves=6)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXT},
    optional={"reasoning": TEXT, "thinking": TEXT, "extra": VALUES, "name": st.none() | TEXT})


@pytest.fixture(scope="module", name="both")
def fixture_both(tmp_path_factory, tokenizer_json):
    """A folder, and what transformers reads from it."""
    made = tmp_path_factory.mktemp("both")
    (made / "tokenizer.json").write_text(tokenizer_json)
    (made / "tokenizer_config.json").write_text(json.dumps(config_of([
        {"name": name, "template": TEMPLATES[name]} for name in ("tools of qwen", "tojson of messages", "items")])))
    return text_of(made, 310), AutoTokenizer.from_pretrained(made)


@examples(100, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(messages=st.lists(MESSAGE, min_size=1, max_size=4), tools=st.none() | st.lists(VALUES.filter(
    lambda value: isinstance(value, dict)), max_size=2), name=st.sampled_from(["tools of qwen", "tojson of messages", "items"]))
def test_any_messages_are_rendered_as_transformers_renders_them(both, messages, tools, name):
    texts, theirs = both
    expected = theirs.apply_chat_template(messages, tools=tools, chat_template=name, add_generation_prompt=True)
    assert Chat(texts.folder, texts).tokens(messages, tools=tools, template=name) == expected.input_ids


@pytest.mark.parametrize("name", ["chat_template.jinja", "additional_chat_templates/default.jinja"])
def test_a_template_in_a_file_goes_before_the_one_of_the_settings(folder, name):
    made = folder({"tokenizer_config.json": config_of("SETTINGS"), name: "FILE\r\n{{ messages[0].role }}é\n"})
    assert assert_same(made, MESSAGES) == "FILE\nsystemé"


NAMED = [{"name": "default", "template": "D{{ messages[0].role }}"}, {"name": "tool_use", "template": "T{{ tools | length }}"},
         {"name": "rag", "template": "R{{ documents | length }}"}]


@pytest.mark.parametrize("files", [
    {"tokenizer_config.json": config_of(NAMED)},
    {"tokenizer_config.json": config_of("SETTINGS"),
     **{f"additional_chat_templates/{one['name']}.jinja": one["template"] for one in NAMED[1:]},
     "chat_template.jinja": NAMED[0]["template"]},
    {"tokenizer_config.json": config_of({one["name"]: one["template"] for one in NAMED})},
], ids=["list", "files", "object"])
def test_templates_by_name_are_chosen_as_transformers_chooses(folder, files):
    made = folder(files)
    assert assert_same(made, MESSAGES) == "Dsystem"
    assert assert_same(made, MESSAGES, tools=TOOLS) == "T1"
    assert assert_same(made, MESSAGES, documents=DOCUMENTS, template="rag") == "R1"
    assert assert_same(made, MESSAGES, template="{{ messages | length }}") == "4"


SHOW = "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ image_token }}|{% if unk_token is defined %}{{ unk_token }}{% endif %}"


NEW = {"content": "<|new|>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
       "special": True}
MAPPED = {key: value for key, value in NEW.items() if key != "special"}
FILES = {
    "names": {"tokenizer_config.json": {**SPECIAL}},
    "objects": {"tokenizer_config.json": {"eos_token": {"__type": "AddedToken", **NEW, "content": "</s>"}}},
    "map": {"tokenizer_config.json": {}, "special_tokens_map.json": SPECIAL},
    "map before names": {"tokenizer_config.json": {"eos_token": "<s>", "bos_token": "<s>"},
                         "special_tokens_map.json": {"eos_token": {**MAPPED, "content": "</s>"}, "bos_token": None}},
    "map alone": {"special_tokens_map.json": SPECIAL},
    "described tokens before the map": {
        "tokenizer_config.json": {"eos_token": "</s>", "added_tokens_decoder": {"294": NEW}},
        "special_tokens_map.json": {"eos_token": "<s>"}},
    "end that is described": {"tokenizer_config.json": {"eos_token": "<|new|>", "added_tokens_decoder": {"294": NEW}}},
    "names of a model's own": {"tokenizer_config.json": {"bos_token": "<s>", "image_token": "<|im_end|>"}},
    "extra names": {"tokenizer_config.json": {"bos_token": "<s>",
                                              "extra_special_tokens": {"image_token": "<|im_start|>"}}},
    "extra tokens": {"tokenizer_config.json": {"additional_special_tokens": ["ab", "<s>"]}},
    "extra tokens of the map": {"special_tokens_map.json": {"additional_special_tokens": ["ab", "<s>"]}},
    "ids in added_tokens.json": {"tokenizer_config.json": {"eos_token": "</s>"},
                                 "added_tokens.json": {"<|new|>": 294}},
    "names of the class": {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "eos_token": "<|im_end|>"}},
    "null in place of the class": {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizerFast", "bos_token": None}},
    "words that become special": {"tokenizer_config.json": {"eos_token": "a", "pad_token": "\u0120b"}},
    "tokens as transformers saves them": {"tokenizer_config.json": {
        "tokenizer_class": "TokenizersBackend", "eos_token": "</s>", "image_token": "<|im_end|>",
        "model_specific_special_tokens": {"image_token": "<s>", "audio_token": "<|im_start|>"}}},
    "nothing": {},
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_special_tokens_are_those_of_every_file_that_transformers_reads(folder, files):
    made = folder({**files, "chat_template.jinja": SHOW + CHATML})
    messages = [{"role": "user", "content": "a b <s>hello</s><|new|> ab"}]
    assert_same(made, messages)
    assert (text_of(made, 310).encode("a b</s> c<|new|>ab<s>", special=False)
            == AutoTokenizer.from_pretrained(made)("a b</s> c<|new|>ab<s>", add_special_tokens=False).input_ids)


def test_the_token_that_a_tokenizer_pads_with_is_its_pad_token(folder, tokenizer_json):
    library = Tokenizer.from_str(tokenizer_json)
    library.enable_padding(pad_id=291, pad_token="<|im_start|>", length=64)
    made = folder({"tokenizer.json": library.to_str(), "chat_template.jinja": SHOW})
    assert assert_same(made, MESSAGES) == "||<|im_start|>||"
    (made / "tokenizer_config.json").write_text('{"pad_token": null, "bos_token": "<s>"}')
    assert assert_same(made, MESSAGES) == "<s>||||"


@pytest.mark.parametrize("model", ["qwen2", "qwen3", "gpt2", "gemma", "mistral", "llama"])
@pytest.mark.parametrize("named", [None, "LlamaTokenizer", "Qwen2TokenizerFast", "GPT2Tokenizer", "PreTrainedTokenizerFast"])
def test_names_that_no_file_has_are_those_of_the_tokenizers_class(folder, model, named):
    made = folder({"config.json": {"model_type": model}, "tokenizer_config.json": {"tokenizer_class": named}})
    assert text_of(made, 310).special_tokens == AutoTokenizer.from_pretrained(made).special_tokens_map


@pytest.mark.parametrize("template, message", [
    ("{{ raise_exception('no\\nsystem messages') }}", "the chat template refuses the messages: no system messages"),
    ("{% if %}", "fails: Expected an expression"),
    ("{% generation %}", "fails: "),
    ("{{ 1 / 0 }}", "fails: division by zero"),
    ("{{ messages[0].content + 1 }}", "fails: can only concatenate str"),
    ("{{ messages[9].content }}", "fails: "),
    ("{% include 'other' %}", "fails: "),
    ("{{ messages.__class__.__mro__ }}", "fails: access to attribute '__class__'"),
    ("{% set ns = namespace(__init__=1) %}", "fails: a namespace has no attribute '__init__'"),
    ("{{ messages.append(1) }}", "fails: "),
    ("{{ messages | tojson(indent='x') | nofilter }}", "fails: No filter named 'nofilter'"),
    ("{% for i in range(999999999) %}{% endfor %}", "fails: Range too big"),
])
def test_a_template_that_fails_is_told_in_one_line(folder, template, message):
    made = folder({"tokenizer_config.json": config_of(template)})
    with pytest.raises(InvalidInput) as error:
        Chat(made, text_of(made, 310)).tokens(MESSAGES)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("messages, message", [
    ([], "a chat has no message"),
    ("hello", "a chat has no message"),
    (["hello"], "'hello' is no message"),
    ([{"role": "user", "content": b"x"}], "messages of a chat hold a bytes"),
    ([{"role": "user", "content": "\ud800"}], "is no UTF-8 text"),
])
def test_what_are_no_messages_is_refused(folder, messages, message):
    made = folder({"tokenizer_config.json": config_of(CHATML)})
    with pytest.raises(InvalidInput, match=message):
        Chat(made, text_of(made, 310)).tokens(messages)


@pytest.mark.parametrize("files, message", [
    ({"tokenizer_config.json": "{"}, "tokenizer_config.json' is no JSON"),
    ({"tokenizer_config.json": "[]"}, "tokenizer_config.json' holds no JSON object"),
    ({"special_tokens_map.json": "\xff"}, "special_tokens_map.json' is no JSON"),
    ({"tokenizer_config.json": {"eos_token": 5}}, "eos_token is 5, it must be the text of a token"),
    ({"tokenizer_config.json": {"bos_token": ["<s>"]}}, "bos_token is .*, it must be the text of a token"),
    ({"special_tokens_map.json": {"pad_token": {"text": "<s>"}}}, "special_tokens_map.json': pad_token is "),
    ({"tokenizer_config.json": {"eos_token": "<|nope|>"}},
     "tokenizer_config.json' names the eos_token '<|nope|>', which .* lacks"),
    ({"special_tokens_map.json": {"eos_token": "<|nope|>"}}, "special_tokens_map.json' names the eos_token"),
    ({"tokenizer_config.json": {"added_tokens_decoder": {"400": NEW}}}, "the id 400, the tokenizer's next id is 294"),
    ({"tokenizer_config.json": {"added_tokens_decoder": {"x": NEW}}}, "must have a token by each id"),
    ({"tokenizer_config.json": {"added_tokens_decoder": {"294": "x", "295": 3}}}, "added token 295 is 3"),
    ({"added_tokens.json": {"<|new|>": "294"}}, "added_tokens.json' must have the id of each token"),
    ({"tokenizer_config.json": {"extra_special_tokens": "x"}}, "extra special tokens are no list"),
    ({"tokenizer_config.json": config_of(7)}, "chat_template is neither a text nor a list"),
    ({"tokenizer_config.json": config_of([{"name": "default"}])}, "chat_template is neither a text nor a list"),
    ({"tokenizer_config.json": config_of(None)}, "has no chat template; leave --chat away"),
    ({"tokenizer_config.json": config_of(NAMED[1:])}, "has the chat templates 'rag', 'tool_use' and none named"),
    ({"tokenizer_config.json": {"bos_token": "<|nope|>"}, "chat_template.jinja": "{{ bos_token }}"},
     "the chat template writes the bos_token '<|nope|>', which the tokenizer lacks"),
])
def test_settings_that_cannot_be_used_are_told_and_never_replaced_by_a_guess(folder, files, message):
    made = folder(files)
    for name, content in files.items():
        if content == "\xff":
            (made / name).write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match=message.replace("|", r"\|")) as error:
        Chat(made, text_of(made, 310)).tokens(MESSAGES)
    assert "\n" not in str(error.value)


def llama_json(**config):
    """Files of a SentencePiece tokenizer as Llama 2 has it, in miniature."""
    words = ["▁", "h", "e", "l", "o", "▁h", "▁he", "▁hel", "▁hell", "▁hello", "[", "]", "IN", "I", "N", "▁[", "\n", "▁▁"]
    merges = [("▁", "h"), ("▁h", "e"), ("▁he", "l"), ("▁hel", "l"), ("▁hell", "o"), ("I", "N"), ("▁", "["), ("▁", "▁")]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    library = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges, unk_token="<unk>",
                                   fuse_unk=True, byte_fallback=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])
    library.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    template = "{% for m in messages %}{{ bos_token }}[IN]{{ m.content }}[IN] {{ eos_token }}{% endfor %}"
    return {"tokenizer.json": library.to_str(), "tokenizer_config.json": {"chat_template": template, **config}}


@pytest.mark.parametrize("config", [
    {}, {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL},
    *({"tokenizer_class": name, **more} for name in ("LlamaTokenizer", "LlamaTokenizerFast") for more in (
        {}, {"legacy": True}, {"legacy": False}, {"add_prefix_space": False}, {"add_prefix_space": True, "legacy": True})),
], ids=str)
@pytest.mark.parametrize("text", ["hello", " hello", "  hello\n</s>hello <s> hello", "hé [", "", "\n"])
def test_text_of_llamas_is_parted_as_transformers_parts_it(folder, config, text):
    made = folder(llama_json(**{key: value for key, value in config.items() if key != "pad_token"}))
    theirs, texts = AutoTokenizer.from_pretrained(made), text_of(made, 310)
    assert texts.encode(text) == theirs(text).input_ids
    ids = theirs(text, add_special_tokens=False).input_ids
    assert texts.encode(text, special=False) == ids
    assert texts.tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert_same(made, [{"role": "user", "content": text}])


KNOWN = ["</s>", "<s>", "<|im_end|>", "a", "\u0120b", "<|new|>", None]
NAMES = ["bos_token", "eos_token", "pad_token", "unk_token", "image_token"]
FLAGS = ["lstrip", "rstrip", "single_word", "normalized"]
SHOWN = "{% for token in [" + ", ".join(NAMES) + "] %}[{{ token }}]{% endfor %}a b</s> <s> ab<|im_end|> a <|new|>b <|n|>"


def drawn_files(draw):
    """Files that declare special tokens in every way at the same time."""
    def token(kind):
        content = draw.choice(KNOWN)
        if content is None or draw.random() < 0.6:
            return content
        return {**kind, "content": content, **{flag: draw.random() < 0.3 for flag in FLAGS}}

    config = {"tokenizer_class": draw.choice(["PreTrainedTokenizerFast", "LlamaTokenizer", None]),
              **{name: token({"__type": "AddedToken"}) for name in NAMES if draw.random() < 0.5}}
    if draw.random() < 0.3:
        config["added_tokens_decoder"] = {
            str(294 + i): {**NEW, "content": content, "special": draw.random() < 0.5}
            for i, content in enumerate(draw.sample(["<|new|>", "<|n|>"], draw.randrange(3)))}
    if draw.random() < 0.3:
        config[draw.choice(["additional_special_tokens", "extra_special_tokens"])] = [
            content for content in draw.sample(KNOWN, 2) if content]
    files = {"tokenizer_config.json": config, "chat_template.jinja": SHOWN,
             "config.json": {"model_type": draw.choice(["llama", "mistral"]), "eos_token_id": 3}}
    if draw.random() < 0.4:
        files["special_tokens_map.json"] = {name: token({}) for name in NAMES if draw.random() < 0.4}
    if draw.random() < 0.2:
        files["added_tokens.json"] = {"<|new|>": 294}
    return files


@pytest.mark.parametrize("seed", range(300))
def test_files_that_declare_tokens_in_many_ways_give_what_transformers_reads(folder, seed):
    made = folder(drawn_files(random.Random(seed)))
    theirs, texts = AutoTokenizer.from_pretrained(made), text_of(made, 310)
    assert texts.special_tokens == theirs.special_tokens_map
    assert Chat(made, texts).text(MESSAGES) == theirs.apply_chat_template(MESSAGES, tokenize=False)
    ids = theirs(SHOWN, add_special_tokens=False).input_ids
    assert texts.encode(SHOWN, special=False) == ids
    assert texts.tokenizer.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("seed", range(300))
def test_settings_of_any_form_are_read_or_refused_in_one_line(folder, seed):
    draw = random.Random(seed)
    values = [None, True, -1, 3.5, "", "</s>", [], ["a"], [1], {}, {"content": "x"}, {"content": 5}, {"294": "z"},
              {"-1": "q"}, {"1e3": {}}, {"9" * 30: "q"}, {"default": 3}, [{"name": "default"}], "{{ x", "\ud800"]
    keys = [*NAMES, "added_tokens_decoder", "chat_template", "extra_special_tokens", "tokenizer_class", "model_type",
            "model_specific_special_tokens", "eos_token_id", "legacy", "add_prefix_space"]
    files = {"chat_template.jinja": SHOWN}
    for name in ("tokenizer_config", "special_tokens_map", "added_tokens", "config", "generation_config"):
        if draw.random() < 0.4:
            files[f"{name}.json"] = {draw.choice(keys): draw.choice(values) for _ in range(draw.randrange(3))}
    made = folder(files)
    try:
        texts = text_of(made, 310)
        Chat(made, texts).tokens(MESSAGES)
        texts.pieces().step(5)
    except InvalidInput as error:
        assert "\n" not in str(error)
