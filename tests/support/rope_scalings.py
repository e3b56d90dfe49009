"""Rope dictionaries of models with up to 1,024 positions, by what they try."""

ROPE_SCALINGS = {
    "linear": dict(rope_type="linear", rope_theta=1e4, factor=4.0),
    "llama3": dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=128),
    "llama3-steep": dict(rope_type="llama3", rope_theta=100.0, factor=32.0, low_freq_factor=1.0,
                         high_freq_factor=2.0, original_max_position_embeddings=64),
    "yarn": dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=256),
    "yarn-betas": dict(rope_type="yarn", rope_theta=1e6, factor=2.0, beta_fast=16.0, beta_slow=2.0,
                       original_max_position_embeddings=512, attention_factor=0.75),
    "yarn-mscale": dict(rope_type="yarn", rope_theta=1e4, factor=40.0, mscale=0.7,
                        mscale_all_dim=0.9, original_max_position_embeddings=256),
    "yarn-not-truncated": dict(rope_type="yarn", rope_theta=150.0, factor=16.0, truncate=False,
                               original_max_position_embeddings=64),
    "yarn-from-its-positions": dict(rope_type="yarn", rope_theta=1e4, factor=None,
                                    original_max_position_embeddings=256),
    "yarn-without-its-positions": dict(rope_type="yarn", rope_theta=1e4, factor=3.0),
}
