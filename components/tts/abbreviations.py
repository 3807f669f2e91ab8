"""Words whose full stop ends no sentence, and words that begin one."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TITLES = _words("""
    dr mr mrs ms prof st gen sen rep lt col capt cpt sgt maj cmdr adm rev hon fr br pres gov supt
    insp mme mlle messrs mt ft
""")
"""Stand before a name."""

NEVER = _words("eg ie vs cf approx viz ca al esp incl resp")
"""Go on, whatever follows."""

NUMBERED = _words("""
    no nos fig figs vol vols p pp eq eqs sec ch art ex op ext tel para
    jan feb mar apr jun jul aug sep sept oct nov dec
""")
"""Go on before a number."""

PERHAPS = _words("etc inc ltd co corp jr sr ave blvd rd dept univ est min max hr hrs")
"""End a sentence where what follows begins one."""

STARTERS = _words("""
    the a an this that these those it its he she they we you i his her their our your my there here
    then and but or so yet if when while where what who why how which in on at for from with after
    before as to by however also now today yes no let please do does did is are was were can could
    would should will may not once since although because next finally first
""")
"""Words that seldom stand in capitals within a sentence."""
