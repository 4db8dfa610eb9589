# The domain-safe operators, one definition a line: the lines are read from here and handed to
# PySR verbatim, so that there is one source for them. Values match sjepa/symbolic/functions.py.
# `oftype` keeps the number type of the argument, as SymbolicRegression.jl requires.
safe_div(x, y) = abs(y) < oftype(y, 1e-3) ? x * y / oftype(y, 1e-6) : x / y
exp_clip(x) = exp(clamp(x, oftype(x, -20), oftype(x, 20)))
log_safe(x) = log(max(abs(x), oftype(x, 1e-3)))
sqrt_safe(x) = abs(x) < oftype(x, 1e-6) ? abs(x) / oftype(x, 1e-3) : sqrt(abs(x))
heaviside(x, at_zero = oftype(x, 0.5)) = x > 0 ? one(x) : (x < 0 ? zero(x) : oftype(x, at_zero))
