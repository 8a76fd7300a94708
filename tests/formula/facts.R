# R's model.matrix of every line of forms.tsv on rows.csv: Rscript facts.R FOLDER > facts.csv
folder <- commandArgs(TRUE)[1]
library(splines)
rows <- read.csv(file.path(folder, "rows.csv"), check.names = FALSE, stringsAsFactors = TRUE)
forms <- strsplit(readLines(file.path(folder, "forms.tsv")), "\t")
for (i in seq_along(forms)) {
  form <- forms[[i]]
  right <- as.formula(paste("~", form[length(form)]))
  X <- suppressWarnings(model.matrix(terms(right, data = rows), rows)) # bs beyond its bounds
  cat(i, nrow(X), ncol(X), sprintf("%.17g", X), sep = ",")
  cat("\n")
}
