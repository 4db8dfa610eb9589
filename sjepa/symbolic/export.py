"""Write a law in other people's languages: LaTeX, MathML, C, Julia."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.entities import html5
from typing import TYPE_CHECKING, ClassVar

import sympy
from sympy.printing.c import C99CodePrinter
from sympy.printing.latex import LatexPrinter
from sympy.printing.mathml import mathml

from sjepa.symbolic.functions import CLIP, EPS
from sjepa.symbolic.operators import NODES
from sjepa.symbolic.parse import symbol
from sjepa.symbolic.text import TextPrinter, for_reading, safe_quotient


if TYPE_CHECKING:
    from sjepa.symbolic.law import Law


def rounded(expr: sympy.Expr, digits: int) -> sympy.Expr:
    """The expression with its doubles rounded to so many significant digits."""
    floats = {f: sympy.Float(float(f"{float(f):.{digits}g}")) for f in expr.atoms(sympy.Float)}
    return expr.xreplace(floats)


class _LatexPrinter(LatexPrinter):
    """LaTeX without environments, so that matplotlib's mathtext reads it too."""

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self._print(last)
        for value, condition in reversed(cases):
            inner = f"{self._print(condition)},\\; {self._print(value)},\\; {text}"
            text = rf"\mathrm{{where}}\left({inner}\right)"
        return text

    def _print_Mod(self, expr: sympy.Expr, exp: str | None = None) -> str:
        inner = ",\\; ".join(self._print(a) for a in expr.args)
        return rf"\mathrm{{mod}}\left({inner}\right)" + (f"^{{{exp}}}" if exp else "")

    def _print_And(self, expr: sympy.Basic) -> str:
        return r" \wedge ".join(self._print(a) for a in expr.args)

    def _print_Or(self, expr: sympy.Basic) -> str:
        return r" \vee ".join(self._print(a) for a in expr.args)


def _latex_name(name: str) -> str:
    """A name of several letters in upright type; z1 and theta are left to SymPy."""
    text = str(sympy.latex(sympy.Symbol(name)))
    return rf"\mathrm{{{text}}}" if re.fullmatch(r"[A-Za-z]{2,}", text) else text


def latex_lines(law: Law, digits: int) -> list[str]:
    """One equation a line, in the part of LaTeX that matplotlib's mathtext also reads."""
    lines = []
    names = {symbol(n): _latex_name(n) for n in (*law.inputs, *law.outputs)}
    printer = _LatexPrinter({"symbol_names": names})
    for name, expr in zip(law.outputs, law.expressions, strict=True):
        moved = names[symbol(name)]
        if law.dynamics == "continuous":
            left = rf"\dot{{{moved}}}"
        else:
            left = rf"{moved}^{{+}}" if name in law.inputs else moved
        right = printer.doprint(for_reading(expr, digits))
        lines.append(f"{left} = {right}")
    return lines


def mathml_markup(expr: sympy.Expr, digits: int) -> str:
    """An expression in presentation markup, without the ``<math>`` element around it."""
    text = str(mathml(for_reading(expr, digits), printer="presentation"))
    # SymPy leaves the sign of a comparison bare, and writes a hyphen for a minus.
    text = text.replace("<mo><", "<mo>&lt;").replace("<mo>-</mo>", "<mo>&#x2212;</mo>")
    text = _INDEXED_POWER.sub(r"<msubsup>\1\2\3</msubsup>", text)
    return _ENTITY.sub(_numeric_entity, text)


# The power of an indexed name stands above its index, not behind it.
_INDEXED_POWER = re.compile(
    r"<msup><msub>(<mi>[^<]*</mi>)(<mi>[^<]*</mi>)</msub>(<mn>[^<]*</mn>)</msup>"
)


def mathml_left(law: Law, i: int) -> str:
    """The left side of an equation in presentation markup."""
    name = law.outputs[i]
    markup = mathml_markup(sympy.Symbol(name), 4)
    if law.dynamics == "continuous":
        # A full stop above the letter: fonts without mathematics draw the dot accent inside it.
        dotted = r'<mover accent="false">\g<0><mo>.</mo></mover>'
        return re.sub(r"<mi>.*?</mi>", dotted, markup, count=1)
    return f"<msup><mrow>{markup}</mrow><mo>+</mo></msup>" if name in law.inputs else markup


def mathml_lines(law: Law, digits: int) -> list[str]:
    """One ``<math>`` element for each equation, in presentation markup."""
    return [
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        f"<mrow>{mathml_left(law, i)}<mo>=</mo>{mathml_markup(expr, digits)}</mrow></math>"
        for i, expr in enumerate(law.expressions)
    ]


_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;|#)(\w+;)")


def _numeric_entity(match: re.Match[str]) -> str:
    """Named entities are not defined outside HTML; their numbers are understood everywhere."""
    return "".join(f"&#{ord(c)};" for c in html5[match.group(1)])


_C_HELPERS = {
    "safe_div": f"""static double safe_div(double a, double b) {{
    return fabs(b) < {EPS!r} ? a * b / ({EPS!r} * {EPS!r}) : a / b;
}}""",
    "exp_clip": f"""static double exp_clip(double x) {{
    return exp(fmin(fmax(x, -{CLIP!r}), {CLIP!r}));
}}""",
    "log_safe": f"""static double log_safe(double x) {{
    return log(fmax(fabs(x), {EPS!r}));
}}""",
    "sqrt_safe": f"""static double sqrt_safe(double x) {{
    double size = fabs(x);
    return size < {EPS!r} * {EPS!r} ? size / {EPS!r} : sqrt(size);
}}""",
    "floor_mod": """static double floor_mod(double a, double b) {
    return a - b * floor(a / b);
}""",
    "heaviside": """static double heaviside(double x, double at_zero) {
    return x > 0 ? 1.0 : (x < 0 ? 0.0 : at_zero);
}""",
}


class _CPrinter(C99CodePrinter):
    """C99 with whole numbers as doubles, and modulo as mathematicians mean it."""

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return f"{int(expr)}.0"

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_Mod(self, expr: sympy.Expr) -> str:
        return f"floor_mod({', '.join(self._print(a) for a in expr.args)})"

    def _print_Heaviside(self, expr: sympy.Expr) -> str:
        x, at_zero = expr.args
        return f"heaviside({self._print(x)}, {self._print(at_zero)})"

    def _print_Function(self, expr: sympy.Expr) -> str:
        if expr.func in NODES:
            return f"{NODES[expr.func].name}({', '.join(self._print(a) for a in expr.args)})"
        return str(super()._print_Function(expr))


def c_source(law: Law, name: str) -> str:
    """A C99 function ``void name(const double *in, double *out)`` and what it needs."""
    printer = _CPrinter()
    places = {s: sympy.Symbol(f"in[{i}]", real=True) for i, s in enumerate(law.symbols)}
    body = [
        f"    out[{i}] = {printer.doprint(e.xreplace(places))};  /* {law.left_side(i)} */"
        for i, e in enumerate(law.expressions)
    ]
    text = "\n".join(body)
    helpers = [source for helper, source in _C_HELPERS.items() if f"{helper}(" in text]
    names = ", ".join(law.inputs)
    head = ["#include <math.h>", "", *helpers, *([""] if helpers else [])]
    signature = f"/* in: {names} */\nvoid {name}(const double *in, double *out) {{"
    return "\n".join([*head, signature, text, "}", ""])


class CallPrinter(TextPrinter):
    """Text with function names and powers spelled as another language has them."""

    names: ClassVar[dict[str, str]] = {}
    conditional = "where"
    conjunctions: ClassVar[dict[str, str]] = {"and": " & ", "or": " | "}
    power = "**"

    def _print_Function(self, expr: sympy.Expr) -> str:
        row = NODES.get(expr.func)
        name = row.name if row else expr.func.__name__
        return f"{self.names.get(name, name)}({', '.join(self._print(a) for a in expr.args)})"

    _print_Abs = _print_sign = _print_Max = _print_Min = _print_Mod = _print_Function
    _print_ceiling = _print_Heaviside = _print_exp = _print_Function

    def _print_Pow(self, expr: sympy.Expr, rational: bool = False) -> str:
        base, exponent = expr.args
        if exponent == sympy.S.Half:
            return f"{self.names.get('sqrt', 'sqrt')}({self._print(base)})"
        if exponent.is_Rational and exponent < 0:
            return f"(1/{self._wrapped(base**-exponent)})"
        return f"{self._wrapped(base)}{self.power}{self._wrapped(exponent)}"

    def _wrapped(self, expr: sympy.Expr) -> str:
        text = self._print(expr)
        atom = expr.is_Symbol or (
            expr.is_Number and expr >= 0 and (expr.is_Integer or expr.is_Float)
        )
        return text if atom else f"({text})"

    def _print_Mul(self, expr: sympy.Expr) -> str:
        if quotient := safe_quotient(self, expr):
            return quotient
        coefficient, rest = expr.as_coeff_Mul()
        factors = [
            self._wrapped(f) if f.is_Add else self._print(f) for f in sympy.Mul.make_args(rest)
        ]
        if coefficient == -1:
            return "-" + "*".join(factors)
        return "*".join(([] if coefficient == 1 else [self._print(coefficient)]) + factors)

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, _) = expr.args
        text = self._print(last)
        for value, condition in reversed(cases):
            text = f"{self.conditional}({self._condition(condition)}, {self._print(value)}, {text})"
        return text

    def _condition(self, condition: sympy.Basic) -> str:
        if isinstance(condition, sympy.And | sympy.Or):
            word = self.conjunctions["and" if isinstance(condition, sympy.And) else "or"]
            return word.join(f"({self._condition(a)})" for a in condition.args)
        return f"{self._print(condition.lhs)} {condition.rel_op} {self._print(condition.rhs)}"


class JuliaPrinter(CallPrinter):
    """Scalar Julia; also what PySR reads as a guess."""

    names: ClassVar[dict[str, str]] = {row.name: row.pysr for row in NODES.values() if row.pysr} | {
        "Heaviside": "heaviside"
    }
    conditional = "ifelse"
    power = "^"


def local_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, with underscores after those that the generated text uses for itself."""
    used, result = {*taken, *names}, []
    for name in names:
        while name in taken or name in result:
            name += "_"
            if name not in used:
                break
        result.append(name)
    return result


# What Julia keeps for itself and Python does not.
_JULIA_WORDS = (
    "baremodule", "begin", "catch", "const", "do", "elseif", "end", "export", "function", "im",
    "let", "local", "macro", "module", "quote", "struct", "true", "false", "using",
)  # fmt: skip


def julia_source(law: Law, name: str, definitions: Sequence[str]) -> str:
    """A scalar Julia function of the inputs, with the operator definitions it uses."""
    printer = JuliaPrinter()
    names = local_names(law.inputs, (*_JULIA_WORDS, name))
    local = {old: symbol(new) for old, new in zip(law.symbols, names, strict=True)}
    expressions = [printer.doprint(e.xreplace(local)) for e in law.expressions]
    text = ", ".join(expressions)
    helpers = [d for d in definitions if d.split("(")[0] + "(" in text]
    result = f"({text},)" if len(expressions) == 1 else f"({text})"
    head = "".join(d + "\n" for d in helpers) + ("\n" if helpers else "")
    return f"{head}{name}({', '.join(names)}) = {result}\n"
