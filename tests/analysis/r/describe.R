# R's numbers for tests/analysis/test_describe_r.py: facts, made once, with the code that made them.
#
#   Rscript tests/analysis/r/describe.R > tests/analysis/r/describe.csv
#
# The data are those of tests/reference/data, five sets of MASS, survival and datasets.

sets <- list(
  airquality = list(by = "Month", columns = c("Ozone", "Solar.R", "Wind", "Temp")),
  survey = list(by = "Sex", columns = c("Wr.Hnd", "Pulse", "Height", "Age", "Clap", "Exer", "Smoke", "M.I")),
  Pima.tr2 = list(by = "type", columns = c("glu", "bp", "skin", "bmi")),
  pbc = list(by = "sex", columns = c("bili", "albumin", "age", "chol", "stage", "edema")),
  birthwt = list(by = "race", columns = c("age", "lwt", "bwt", "smoke", "ftv"))
)
levels_of <- c("stage", "edema", "smoke", "ftv")  # numbers that are counted as levels

line <- function(...) cat(paste(..., sep = ","), "\n", sep = "")
exact <- function(x) sprintf("%.17g", x)
line("set", "column", "level", "cell", "statistic", "value", "printed")

for (set in names(sets)) {
  d <- read.csv(gzfile(file.path("tests/reference/data", paste0(set, ".csv.gz"))), stringsAsFactors = TRUE, na.strings = c("NA", ""))
  by <- factor(d[[sets[[set]]$by]])
  cells <- c(list(all = rep(TRUE, nrow(d))), lapply(split(seq_along(by), by), function(i) seq_along(by) %in% i))
  for (cell in names(cells)) {
    rows <- d[cells[[cell]], ]
    line(set, "", "", cell, "rows", nrow(rows), nrow(rows))
    for (column in sets[[set]]$columns) {
      x <- rows[[column]]
      line(set, column, "", cell, "missing", sum(is.na(x)), sum(is.na(x)))
      if (is.factor(x) || column %in% levels_of) {
        counts <- table(x)
        shares <- prop.table(counts)
        for (level in names(counts)) {
          line(set, column, level, cell, "count", counts[[level]], counts[[level]])
          line(set, column, level, cell, "share", exact(shares[[level]]), sprintf("%.1f %%", 100 * shares[[level]]))
        }
        next
      }
      told <- summary(x)
      shown <- trimws(format(told, digits = 4))  # as summary() prints it
      line(set, column, "", cell, "mean", exact(mean(x, na.rm = TRUE)), shown[["Mean"]])
      line(set, column, "", cell, "sd", exact(sd(x, na.rm = TRUE)), signif(sd(x, na.rm = TRUE), 4))
      q <- quantile(x, c(0.25, 0.5, 0.75), na.rm = TRUE)
      line(set, column, "", cell, "q0.25", exact(q[[1]]), shown[["1st Qu."]])
      line(set, column, "", cell, "q0.5", exact(q[[2]]), shown[["Median"]])
      line(set, column, "", cell, "q0.75", exact(q[[3]]), shown[["3rd Qu."]])
    }
  }
}
