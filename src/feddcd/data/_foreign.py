"""Files of other programs, and how each becomes a table."""

_IN_R = "convert it in R with write.csv({}, 'table.csv', row.names = FALSE)"
FOREIGN = {  # what people have, and how it becomes a table
    ".xls": "save it as .xlsx or .csv",
    ".xlsm": "save it as .xlsx or .csv",
    ".ods": "save it as .csv or .xlsx",
    ".sav": _IN_R.format("haven::read_sav(FILE)"),
    ".dta": _IN_R.format("haven::read_dta(FILE)"),
    ".sas7bdat": _IN_R.format("haven::read_sas(FILE)"),
    ".rds": _IN_R.format("readRDS(FILE)"),
    ".rda": f"{_IN_R.format('NAME')}, after load(FILE)",
    ".rdata": f"{_IN_R.format('NAME')}, after load(FILE)",
    ".feather": _IN_R.format("arrow::read_feather(FILE)"),
    ".json": "save it as .csv or .parquet",
    ".zip": "unpack it first, or compress the .csv with gzip",
}
