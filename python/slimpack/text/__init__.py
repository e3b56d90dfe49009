"""Text as training data: inputs, documents, tokens and the files of a dataset.

`slimpack.data_build` is the command. Each module here is one part of it:
inputs (which files), documents and parquet (what they hold), batches (what goes from reading to encoding),
tokenizer (text to ids), special_tokens and tokenizer_classes (what the files beside it declare), losses
(text without tokens), encoding (batches of documents to tokens), workers (encoding in processes), outputs
(the files of a dataset by name), partial (a build under way, on disk), index (Megatron's .idx) and progress
(the line on the terminal). build_options reads the command line. For conversations there are also
conversations (their messages), targets (the part of their text that the loss counts) and chat_encoding
(both to tokens and masks).
"""
