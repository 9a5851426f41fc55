"""Generate sequences in any order: the equation of Mansimov et al. (ICML 2020) as a library."""
