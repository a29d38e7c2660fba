"""`size` rows over a few dozen pairs, or some hundreds; some fields need quotes, some have them without need."""

REGIONS = ["North", "South", "", "East, upper", "West", 'The "Point"', "Åland", "north"]
PRODUCTS = ["tea", "coffee", "cocoa, dark", 'nut 3/4"', "", "rice", "oats", "figs", "salt", "soy"]


def field(text, rng):
    if "," in text or '"' in text or rng.random() < 0.1:
        return '"' + text.replace('"', '""') + '"'
    return text


def generate(size, rng):
    bound = rng.choice([1, 50, 10**9])
    products = PRODUCTS + [f"item {number}" for number in range(40)] if size > 1000 else PRODUCTS
    lines = ["region,product,amount"]
    for _ in range(size):
        amount = str(rng.randint(-bound, bound))
        lines.append(",".join(field(text, rng) for text in (rng.choice(REGIONS), rng.choice(products), amount)))
    return "\n".join(lines) + "\n"
