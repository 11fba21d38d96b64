"""The words that TPC-H's columns are made of."""

from __future__ import annotations

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4),
    ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2),
    ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0),
    ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3),
    ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
]  # fmt: skip
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
MODES = ["AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK"]
TYPES = [
    f"{size} {finish} {metal}"
    for size in ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD")
    for finish in ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED")
    for metal in ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN")
]
CONTAINERS = [
    f"{size} {kind}"
    for size in ("JUMBO", "LG", "MED", "SM", "WRAP")
    for kind in ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG")
]
_COLOURS = """
almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished
chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab
firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory
khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty
moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff purple red
rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle
tomato turquoise violet wheat white yellow
"""
_PROSE = """
about above according accounts across after against along among around asymptotes attainments
beans blithely bold braids brave busy carefully close courts daringly decoys dependencies deposits
dinos dolphins dugouts engage epitaphs escapades even excuses express final fluffily foxes
frays furiously grouches haggle hockey ideas instructions integrate ironic nag packages patterns
pending permanent pinto platelets players quick quickly quiet quietly regular requests ruthless
sauternes sentiments sheaves silent sleep slow sly slyly special stealthy sublate theodolites
thin tithes unusual warhorses wake warthogs waters
"""

COLOURS = _COLOURS.split()
PROSE = _PROSE.split()

FAVOURED = {
    "p_brand": ["Brand#12", "Brand#23", "Brand#34", "Brand#45"],
    "p_container": ["MED BOX", "MED BAG", "SM CASE", "SM BOX", "LG CASE", "LG BOX"],
    "p_type": ["ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "MEDIUM POLISHED BRASS"],
    "p_size": [15, 49, 14, 3, 9, 5],
    "c_mktsegment": ["BUILDING", "BUILDING", "MACHINERY"],
}
"""Values that queries ask for: changes prefer them, so that rows enter and leave the views."""
