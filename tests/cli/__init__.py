"""The commands, each by its tests, and what all of them share.

Commands whose tests stand under what they show: top in test_why, test_by, test_hiding and test_words;
matrix in test_hiding and test_formats; inspect in test_steps, test_generate, test_chat and test_media;
schema in tests/views/test_schemas.
"""
