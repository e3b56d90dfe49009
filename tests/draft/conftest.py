from draft_models import fixture_prompts, fixture_target_folder  # noqa: F401
