from .workflow import requirements_parse
