collect_ignore = ["test_workflow.py"]
