"""Is what was recorded what the model says? Every branch is scored again in one prefill and compared.

`plan.py` says what is scored, `comparable.py` which turns can be compared at all, `tempered.py` what a value at
another temperature must have been, `judge.py` compares, `report.py` holds the findings, `verify.py` asks the server.
"""

from .report import Difference, TurnReport, Verdict, VerificationReport
from .verify import verify

__all__ = ["Difference", "TurnReport", "Verdict", "VerificationReport", "verify"]
