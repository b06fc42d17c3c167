"""The catalog: size, target, license and sources of each data set of the paper.

Only facts; nothing here reads or downloads data. Every copy is checked against the numbers of rows
and columns. Licenses are those stated by the source, UCI or OpenML, as far as they could be found.
"""

import difflib
from dataclasses import dataclass
from typing import Literal

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known about a data set before it is loaded.

    Attributes:
        name: Its name for `load`.
        title: Its full title.
        task: "binary" (targets 0 or 1), "multiclass" (0, ..., C − 1) or "regression".
        num_data: Number of rows.
        feature_names: Names of the input columns.
        target_name: Name of the target column.
        num_train: Number of leading rows that were published as the training part, if any.
        fixed_split: Whether the remaining rows are the only test part.
        license: Terms of use.
        citation: Where the data come from.
        url: The canonical download.
        openml_id: Number of the copy on OpenML; None if no copy could be confirmed.
    """

    name: str
    title: str
    task: Task
    num_data: int
    feature_names: tuple[str, ...]
    target_name: str
    num_train: int | None = None
    fixed_split: bool = False
    license: str
    citation: str
    url: str
    openml_id: int | None = None

    @property
    def num_features(self) -> int:
        """Number of input columns."""
        return len(self.feature_names)


def find_entry(name: str) -> Entry:
    """The entry with this name.

    Args:
        name: A key of `CATALOG`.

    Raises:
        ValueError: If there is no such set; the message suggests the nearest name.

    >>> from bbalpha_paper.datasets.catalog import find_entry
    >>> find_entry("wine-red")
    Traceback (most recent call last):
    ValueError: name must be one of ..., cep; got name='wine-red'. Did you mean 'wine_red'?
    """
    if name in CATALOG:
        return CATALOG[name]
    nearest = difflib.get_close_matches(name.lower(), CATALOG, n=1)
    question = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"name must be one of {', '.join(CATALOG)}; got name={name!r}.{question}")


def _numbered(prefix: str, count: int, start: int = 1) -> tuple[str, ...]:
    """The names prefix1, prefix2, ..., padded with zeros to equal length."""
    digits = len(str(start + count - 1))
    return tuple(f"{prefix}{number:0{digits}}" for number in range(start, start + count))


_UCI = "https://archive.ics.uci.edu/static/public/"
_UCI_LICENSE = "CC BY 4.0"

_ENTRIES = [
    Entry(
        name="ionosphere",
        title="Ionosphere",
        task="binary",
        num_data=351,
        feature_names=_numbered("a", 34),
        target_name="good",
        license=_UCI_LICENSE,
        citation="Sigillito, Wing, Hutton and Baker, 1989",
        url=_UCI + "52/ionosphere.zip",
        openml_id=59,
    ),
    Entry(
        name="madelon",
        title="Madelon, training and validation parts",
        task="binary",
        num_data=2600,
        feature_names=_numbered("f", 500),
        target_name="label",
        num_train=2000,
        license=_UCI_LICENSE,
        citation="Guyon, Gunn, Ben-Hur and Dror, NIPS 2004",
        url=_UCI + "171/madelon.zip",
        openml_id=1485,
    ),
    Entry(
        name="pima",
        title="Pima Indians diabetes",
        task="binary",
        num_data=768,
        feature_names=(
            "pregnancies",
            "glucose",
            "blood_pressure",
            "skin_thickness",
            "insulin",
            "bmi",
            "diabetes_pedigree",
            "age",
        ),
        target_name="diabetes",
        license="none stated",
        citation="Smith, Everhart, Dickson, Knowler and Johannes, 1988",
        url="https://www.openml.org/d/37",
        openml_id=37,
    ),
    Entry(
        name="colon",
        title="Colon tumor gene expression, raw intensities",
        task="binary",
        num_data=62,
        feature_names=_numbered("g", 2000),
        target_name="tumor",
        license="none stated",
        citation="Alon et al., PNAS 1999",
        url="http://genomics-pubs.princeton.edu/oncology/affydata/index.html",
        openml_id=45087,
    ),
    Entry(
        name="boston",
        title="Boston housing",
        task="regression",
        num_data=506,
        feature_names=(
            "CRIM",
            "ZN",
            "INDUS",
            "CHAS",
            "NOX",
            "RM",
            "AGE",
            "DIS",
            "RAD",
            "TAX",
            "PTRATIO",
            "B",
            "LSTAT",
        ),
        target_name="MEDV",
        license="none stated",
        citation="Harrison and Rubinfeld, 1978",
        url="https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data",
        openml_id=531,
    ),
    Entry(
        name="concrete",
        title="Concrete compressive strength",
        task="regression",
        num_data=1030,
        feature_names=(
            "cement",
            "blast_furnace_slag",
            "fly_ash",
            "water",
            "superplasticizer",
            "coarse_aggregate",
            "fine_aggregate",
            "age",
        ),
        target_name="compressive_strength",
        license=_UCI_LICENSE,
        citation="Yeh, 1998",
        url=_UCI + "165/concrete+compressive+strength.zip",
        openml_id=44959,
    ),
    Entry(
        name="energy",
        title="Energy efficiency of buildings, heating load",
        task="regression",
        num_data=768,
        feature_names=(
            "relative_compactness",
            "surface_area",
            "wall_area",
            "roof_area",
            "overall_height",
            "orientation",
            "glazing_area",
            "glazing_area_distribution",
        ),
        target_name="heating_load",
        license=_UCI_LICENSE,
        citation="Tsanas and Xifara, 2012",
        url=_UCI + "242/energy+efficiency.zip",
        openml_id=44960,
    ),
    Entry(
        name="kin8nm",
        title="Kinematics of a robot arm, kin-8nm",
        task="regression",
        num_data=8192,
        feature_names=_numbered("theta", 8),
        target_name="y",
        license="public",
        citation="DELVE, University of Toronto, 1996",
        url="https://www.openml.org/d/189",
        openml_id=189,
    ),
    Entry(
        name="naval",
        title="Naval propulsion plants, decay of the compressor",
        task="regression",
        num_data=11934,
        feature_names=(
            "lp",
            "v",
            "GTT",
            "GTn",
            "GGn",
            "Ts",
            "Tp",
            "T48",
            "T1",
            "T2",
            "P48",
            "P1",
            "P2",
            "Pexh",
            "TIC",
            "mf",
        ),
        target_name="kMc",
        license=_UCI_LICENSE,
        citation="Coraddu et al., 2014",
        url=_UCI + "316/condition+based+maintenance+of+naval+propulsion+plants.zip",
        openml_id=44969,
    ),
    Entry(
        name="power",
        title="Combined cycle power plant",
        task="regression",
        num_data=9568,
        feature_names=("AT", "V", "AP", "RH"),
        target_name="PE",
        license=_UCI_LICENSE,
        citation="Tüfekci, 2014",
        url=_UCI + "294/combined+cycle+power+plant.zip",
    ),
    Entry(
        name="protein",
        title="Physicochemical properties of protein tertiary structure",
        task="regression",
        num_data=45730,
        feature_names=_numbered("F", 9),
        target_name="RMSD",
        license=_UCI_LICENSE,
        citation="Rana, 2013",
        url=_UCI + "265/physicochemical+properties+of+protein+tertiary+structure.zip",
        openml_id=44963,
    ),
    Entry(
        name="wine_red",
        title="Wine quality, red",
        task="regression",
        num_data=1599,
        feature_names=(
            "fixed_acidity",
            "volatile_acidity",
            "citric_acid",
            "residual_sugar",
            "chlorides",
            "free_sulfur_dioxide",
            "total_sulfur_dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        target_name="quality",
        license=_UCI_LICENSE,
        citation="Cortez, Cerdeira, Almeida, Matos and Reis, 2009",
        url=_UCI + "186/wine+quality.zip",
        openml_id=44972,
    ),
    Entry(
        name="yacht",
        title="Yacht hydrodynamics",
        task="regression",
        num_data=308,
        feature_names=(
            "longitudinal_position",
            "prismatic_coefficient",
            "length_displacement_ratio",
            "beam_draught_ratio",
            "length_beam_ratio",
            "froude_number",
        ),
        target_name="residuary_resistance",
        license="CC0",
        citation="Gerritsma, Onnink and Versluis, 1981",
        url=_UCI + "243/yacht+hydrodynamics.zip",
        openml_id=42370,
    ),
    Entry(
        name="year",
        title="Year prediction, Million Song Dataset",
        task="regression",
        num_data=515345,
        feature_names=(*_numbered("average", 12), *_numbered("covariance", 78)),
        target_name="year",
        num_train=463715,
        fixed_split=True,
        license=_UCI_LICENSE,
        citation="Bertin-Mahieux, Ellis, Whitman and Lamere, 2011",
        url=_UCI + "203/yearpredictionmsd.zip",
        openml_id=44027,
    ),
    Entry(
        name="mnist",
        title="MNIST handwritten digits",
        task="multiclass",
        num_data=70000,
        feature_names=_numbered("pixel", 784),
        target_name="digit",
        num_train=60000,
        fixed_split=True,
        license="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio and Haffner, 1998",
        url="https://ossci-datasets.s3.amazonaws.com/mnist/",
        openml_id=554,
    ),
    Entry(
        name="cep",
        title="Harvard Clean Energy Project, public part, Morgan fingerprints",
        task="regression",
        num_data=29978,
        feature_names=_numbered("bit", 512, start=0),
        target_name="PCE",
        license="none stated",
        citation="Hachmann et al., 2014; the part of Duvenaud et al., 2015",
        url="https://raw.githubusercontent.com/HIPS/neural-fingerprint/master/"
        "data/2015-06-02-cep-pce/cep-processed.csv",
    ),
]

CATALOG: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Every data set of the paper, by the name that `load` takes."""
