"""What a factor of a term is, once the kinds of the columns are known."""

from .._errors import SpecError
from ._bases import basis
from ._categories import category, cut, of_column, of_flags
from ._habits import BASES, CATEGORIES, ROW_WISE
from ._rows import Kinds, check_number, is_boolean
from ._tree import Call, Name, Node, short, text_of
from ._variables import NumberVariable, Variable


def variable(node: Node, kinds: Kinds) -> Variable:
    match node:
        case Name(name) if kinds[name].number:
            return NumberVariable(name, node)
        case Name(name):
            return of_column(name, name, kinds[name].levels)
        case Call("I", ((None, inner),)) if is_boolean(inner, kinds):
            return of_flags(node)
        case Call(function) if function in ("I", *ROW_WISE):
            check_number(node, kinds)
            return NumberVariable(text_of(node), node)
        case Call(function) if function in CATEGORIES:
            return category(node, kinds)
        case Call("cut"):
            return cut(node, kinds)
        case Call(function) if function in BASES:
            return basis(node, kinds)
        case Call("cbind"):
            raise SpecError(f"formula: {short(node)} can be used only on the left of ~")
        case Call(function):
            raise SpecError(f"formula: {short(node)} can be used only inside C(x, ...)")
    raise SpecError(f"formula: {short(node)} is not a column; write I(...) for arithmetic")
