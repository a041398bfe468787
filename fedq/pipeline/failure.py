"""A pipeline that cannot do what it was asked: one sentence that says what to do."""


class PipelineError(Exception):
    """What a pipeline was asked cannot be done; the text is one sentence for its user."""


class OptionError(PipelineError):
    """The refusal of an option: it is not known, or means nothing."""


class DataLossError(PipelineError):
    """Rows that were promised are not there any more."""
