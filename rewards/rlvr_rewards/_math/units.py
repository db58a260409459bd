"""Units that may stand behind a number, each with the spellings that mean the same."""

import re

# One line a unit: the name it is compared by, then its other spellings. Singulars and plurals are both spelled out
# where they differ, since cutting a final s would turn "s" (seconds) into nothing.
_TABLE = """
mm: millimeter millimeters millimetre millimetres
cm: centimeter centimeters centimetre centimetres
dm: decimeter decimeters
m: meter meters metre metres
km: kilometer kilometers kilometre kilometres
in: inch inches
ft: foot feet
yd: yard yards
mi: mile miles
nm: nanometer nanometers nanometre nanometres
um: μm micrometer micrometers micron microns
mg: milligram milligrams
g: gram grams
kg: kilogram kilograms
t: ton tons tonne tonnes
lb: lbs pound pounds
oz: ounce ounces
ms: millisecond milliseconds
s: sec secs second seconds
min: mins minute minutes
h: hr hrs hour hours
day: days
week: weeks
month: months
year: years yr yrs
ml: mL milliliter milliliters millilitre
l: L liter liters litre litres
gal: gallon gallons
cup: cups
qt: quart quarts
pt: pint pints
N: newton newtons
kN: kilonewton kilonewtons
J: joule joules
kJ: kilojoule kilojoules
MJ: megajoule megajoules
cal: calorie calories
kcal: kilocalorie kilocalories
W: watt watts
kW: kilowatt kilowatts
MW: megawatt megawatts
kWh:
V: volt volts
mV: millivolt millivolts
kV: kilovolt kilovolts
A: amp amps ampere amperes
mA: milliamp milliamps
C: coulomb coulombs
F: farad farads
T: tesla teslas
ohm: ohms \\Omega
Hz: hertz
kHz:
MHz:
GHz:
rpm:
Pa: pascal pascals
kPa:
MPa:
GPa:
atm:
K: kelvin kelvins
mol: mole moles
M: molar
eV:
MeV:
mph:
kph: kmh
bit: bits
byte: bytes
KB:
MB:
GB:
acre: acres
hectare: hectares ha
rad: radian radians
degree: degrees deg \\degree
degree C: degrees C degrees Celsius degree Celsius \\degree C celsius
degree F: degrees F degrees Fahrenheit degree Fahrenheit \\degree F fahrenheit
$: \\$ dollar dollars USD usd US$ US\\$
cent: cents ¢
€: euro euros EUR
£: GBP
¥: yen JPY yuan RMB CNY
₹: rupee rupees Rs INR
₩: won KRW
₽: ruble rubles RUB
unit: units
square unit: square units sq units sq unit units^2 unit^2
cubic unit: cubic units units^3 unit^3
"""
_NAMES: dict[str, str] = {}
for _line in _TABLE.strip().splitlines():
    _name, _, _others = _line.partition(":")
    _NAMES[_name] = _name
    # Spellings of several words are listed with the longest first word that is not a spelling of its own.
    _words = _others.split()
    _index = 0
    while _index < len(_words):
        _length = 2 if _words[_index] in ("degrees", "\\degree", "square", "cubic", "sq") and " " in _name else 1
        if _words[_index] == "degree" and " " in _name:
            _length = 2
        _NAMES[" ".join(_words[_index : _index + _length])] = _name
        _index += _length

_COMPOUND = {"mi/h": "mph", "km/h": "kph"}
_PREFIX_POWERS = (("square ", "^2"), ("sq. ", "^2"), ("sq ", "^2"), ("cubic ", "^3"), ("cu ", "^3"))
_PART = re.compile(r"(?P<name>[^\^]+?)\s*(?:\^\s*\{?\s*(?P<power>-?\s*\d)\s*\}?)?$")
# Marks that stand before the number, longer ones first.
CURRENCIES = {
    **{"US\\$": "$", "US$": "$", "USD": "$", "\\$": "$", "$": "$", "\\euro": "€", "EUR": "€", "€": "€", "£": "£"},
    **{"\\pounds": "£", "GBP": "£", "¥": "¥", "₹": "₹", "Rs.": "₹", "Rs": "₹", "₩": "₩", "₽": "₽"},
}
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")


def flat_unit(text: str) -> str:
    """Return the source of a unit in LaTeX as plain text: `\\text{m}\\cdot\\text{s}^{-2}` is `m·s^-2`."""
    text = re.sub(r"\^\s*(?:\{\s*(-?\s*\d)\s*\}|(-?\d))", r"^\1\2", text)
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)
    text = _FRACTION.sub(r"\1/\2", text)
    text = re.sub(r"\s*(?:\\cdot|\\times|\*)\s*", "·", text)
    return re.sub(r"\s+", " ", re.sub(r"\s*\^\s*", "^", text)).strip(" ·")


def unit_name(text: str, products: bool = False) -> str | None:
    """Return the name that a unit is compared by, or None when the text is no known unit.

    Products, quotients and powers of known units are known: `m/s`, `km per hour`, `square centimeters`, `cm^2`, and
    with `products` also `N·m` and `m s^-2`.
    """
    parts = re.split(r"\s*(?:/|\bper\b)\s*", text.strip().strip("."))
    if not 1 <= len(parts) <= 3:
        return None
    names = [_part_name(part) for part in parts]
    joined = "/".join(name for name in names if name)
    if None not in names:
        return _COMPOUND.get(joined, joined)
    return _product_name(parts) if products else None


def _product_name(parts: list[str]) -> str | None:
    """Return the name of a product of units, those with negative powers behind the stroke."""
    above: list[str] = []
    below: list[str] = []
    for index, part in enumerate(parts):
        whole = _part_name(part)
        for factor in [whole] if whole else [_part_name(factor) for factor in re.split(r"[·\s]+", part.strip(" ()"))]:
            if factor is None:
                return None
            name, _, power = factor.partition("^")
            inverse = power.startswith("-")
            power = power.lstrip("-")
            plain = name if power in ("", "1") else f"{name}^{power}"
            (below if (index > 0) != inverse else above).append(plain)
    joined = "/".join(("·".join(sorted(above)), *sorted(below)))
    return _COMPOUND.get(joined, joined)


def is_unit(text: str) -> bool:
    """Return whether the whole text is a known unit."""
    return unit_name(text) is not None


def _part_name(text: str) -> str | None:
    if text in _NAMES:
        return _NAMES[text]
    power = ""
    for prefix, sign in _PREFIX_POWERS:
        if text.lower().startswith(prefix):
            text, power = text[len(prefix) :], sign
    match = _PART.match(text.strip())
    if not match or (power and match["power"]):
        return None
    spelled = match["name"].strip()
    name = _NAMES.get(spelled) or (_NAMES.get(spelled.lower()) if len(spelled) > 2 else None)
    if name is None:
        return None
    given = (match["power"] or "").replace(" ", "")
    power = power or (f"^{given}" if given not in ("", "1") else "")
    return name + power
