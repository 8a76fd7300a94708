# R's numbers for tests/reference/test_against_r.py: facts, made once, with the code that made them.
#
#   Rscript tests/reference/tables.R [FOLDER]
#
# writes FOLDER/data/NAME.csv.gz (the columns used here, of data sets that come with R) and
# FOLDER/tables.json. Every fit is made from the file as it was written. glm() is called again
# from its own solution: the standard errors of a first call are those of the step before the last.
# (A smaller epsilon would do the same, but glm.fit divides it by 1000 for its test of rank.)

suppressPackageStartupMessages({
  library(MASS); library(survival); library(boot); library(nlme)
  library(rpart); library(cluster); library(lattice)
})
arguments <- commandArgs(trailingOnly = TRUE)
folder <- if (length(arguments)) arguments[1] else "tests/reference"
dir.create(file.path(folder, "data"), recursive = TRUE, showWarnings = FALSE)
options(digits = 15, warn = 1)

# ---- JSON, for base R has none ----

json <- function(x) {
  if (is.null(x)) return("null")
  if (is.list(x)) {
    if (!length(x)) return(if (is.null(names(x))) "[]" else "{}")
    each <- vapply(x, json, "")
    if (is.null(names(x))) return(paste0("[", paste(each, collapse = ", "), "]"))
    return(paste0("{", paste0(quoted(names(x)), ": ", each, collapse = ", "), "}"))
  }
  each <- if (is.character(x)) quoted(x) else if (is.logical(x)) tolower(x) else number(x)
  if (length(x) == 1 && !inherits(x, "AsIs")) each else paste0("[", paste(each, collapse = ", "), "]")
}
quoted <- function(x) encodeString(enc2utf8(as.character(x)), quote = '"')
number <- function(x) ifelse(is.finite(x), sprintf("%.15g", unclass(x)), "null")
several <- function(x) I(unname(x))

# ---- data sets ----

datasets <- list()
frames <- list()

use <- function(name, data, package, source, columns = names(data)) {
  data <- as.data.frame(data)[columns]
  for (column in columns) {
    x <- data[[column]]
    if (is.ordered(x)) x <- factor(x, ordered = FALSE, levels = levels(x))
    if (is.logical(x)) x <- as.integer(x)
    if (inherits(x, "difftime") || is.ts(x)) x <- as.numeric(x)
    data[[column]] <- x
  }
  file <- file.path(folder, "data", paste0(name, ".csv.gz"))
  out <- gzfile(file, "w", compression = 9)
  write.csv(data, out, row.names = FALSE, na = "")
  close(out)
  kinds <- lapply(data, function(x) if (is.numeric(x)) NULL else several(if (is.factor(x)) levels(x) else sort(unique(x))))
  back <- read.csv(file, check.names = FALSE, na.strings = "", colClasses = ifelse(vapply(data, is.numeric, TRUE), "numeric", "character"))
  for (column in columns) if (!is.null(kinds[[column]])) back[[column]] <- factor(back[[column]], levels = kinds[[column]])
  frames[[name]] <<- back
  factors <- Filter(Negate(is.null), kinds)
  if (!length(factors)) factors <- structure(list(), names = character())
  datasets[[name]] <<- list(package = package, source = source, rows = nrow(back), levels = factors)
}

# ---- one table ----

level_names <- function(x, kind) {
  if (is.matrix(x)) return(as.character(seq_len(ncol(x))))
  if (is.numeric(x)) return(NA)
  if (is.null(kind)) kind <- "contr.treatment"  # a condition
  x <- as.factor(x)
  if (identical(kind, "full")) return(levels(x))
  shape <- if (is.character(kind)) get(kind)(levels(x)) else kind
  if (!is.null(colnames(shape))) return(colnames(shape))
  helmert <- identical(unname(shape), unname(contr.helmert(levels(x))))
  if (helmert) levels(x)[-1] else levels(x)[seq_len(ncol(shape))]
}

# by coefficient: the variables that it multiplies, each with its level where it has one
pieces <- function(fit) {
  matrix <- model.matrix(fit); terms <- terms(fit); frame <- model.frame(fit)
  values <- function(v) frame[[if (v %in% names(frame)) v else gsub("`", "", v)]]
  assign <- attr(matrix, "assign"); how <- attr(terms, "factors"); contrasts <- attr(matrix, "contrasts")
  out <- vector("list", ncol(matrix))
  if (0 %in% assign) out[[which(assign == 0)]] <- list()
  full_used <- attr(terms, "intercept") == 1
  for (k in unique(assign[assign > 0])) {
    variables <- rownames(how)[how[, k] > 0]
    kinds <- lapply(variables, function(v) if (how[v, k] == 2) "full" else contrasts[[v]])
    is_factor <- vapply(variables, function(v) !is.numeric(values(v)), TRUE)
    names <- lapply(seq_along(variables), function(i) level_names(values(variables[i]), kinds[[i]]))
    if (prod(lengths(names)) != sum(assign == k)) {  # the first factor without an intercept
      first <- which(is_factor)[1]
      names[[first]] <- levels(as.factor(values(variables[first])))
    }
    grid <- expand.grid(names, stringsAsFactors = FALSE)
    stopifnot(nrow(grid) == sum(assign == k))
    for (row in seq_len(nrow(grid))) {
      at <- which(assign == k)[row]
      out[[at]] <- lapply(seq_along(variables), function(i) {
        level <- grid[row, i]
        list(variable = variables[i], level = if (is.na(level)) NULL else level)
      })
    }
  }
  out
}

facts <- function(fit) {
  s <- summary(fit); gaussian <- inherits(fit, "lm") && !inherits(fit, "glm")
  table <- coef(s); there <- !is.na(coef(fit)); w <- weights(fit)
  interval <- if (gaussian) confint(fit)[there, , drop = FALSE] else confint.default(fit)[there, , drop = FALSE]
  as_glm <- if (gaussian) {
    y <- model.response(model.frame(fit)); o <- if (is.null(fit$offset)) 0 else fit$offset
    w <- if (is.null(w)) rep(1, length(y)) else w
    centre <- if (attr(terms(fit), "intercept")) weighted.mean(y - o, w) else 0
    list(null = sum(w * (y - o - centre)^2), dispersion = s$sigma^2)
  } else list(null = null_deviance(fit), dispersion = s$dispersion)
  out <- list(
    names = several(rownames(table)), pieces = unname(pieces(fit)[there]),
    aliased = several(names(coef(fit))[!there]),
    coef = several(table[, 1]), std_err = several(table[, 2]),
    statistic = several(table[, 3]), p = several(table[, 4]),
    low = several(interval[, 1]), high = several(interval[, 2]),
    distribution = if (gaussian || grepl("t value", colnames(table)[3])) "t" else "z",
    rows = if (is.null(w)) length(residuals(fit)) else sum(weights(fit, "prior") != 0),
    dropped = length(na.action(fit)),
    deviance = deviance(fit), null_deviance = as_glm$null,
    df_residual = df.residual(fit), df_null = df.residual(fit) + fit$rank - attr(terms(fit), "intercept"),
    dispersion = as_glm$dispersion,
    pearson = sum(residuals(fit, "pearson")^2),
    log_likelihood = as.numeric(logLik(fit)), aic = AIC(fit),
    bic = -2 * as.numeric(logLik(fit)) + log(nobs(fit)) * attr(logLik(fit), "df")  # BIC() counts rows of weight 0 with glm, not with lm
  )
  if (gaussian) {
    out$rows <- if (is.null(weights(fit))) length(residuals(fit)) else sum(weights(fit) != 0)
    out$r_squared <- s$r.squared; out$adjusted_r_squared <- s$adj.r.squared
    if (!is.null(s$fstatistic)) {
      f <- s$fstatistic
      out$f <- unname(f[1]); out$f_df <- several(f[2:3])
      out$f_p <- unname(pf(f[1], f[2], f[3], lower.tail = FALSE))
    }
  }
  out
}

# with an offset glm() iterates for it, to its epsilon: again until it stands
null_deviance <- function(fit) {
  if (is.null(fit$offset) || !attr(terms(fit), "intercept")) return(fit$null.deviance)
  null <- fit
  for (again in 1:3) {
    null <- glm.fit(matrix(1, length(fit$y), 1), fit$y, fit$prior.weights, etastart = null$linear.predictors, offset = fit$offset, family = fit$family)
  }
  stopifnot(abs(null$deviance / fit$null.deviance - 1) < 1e-7)
  null$deviance
}

solution <- function(fit, frame) {
  eta <- rep(NA_real_, nrow(frame))
  eta[match(names(fit$linear.predictors), rownames(frame))] <- fit$linear.predictors
  eta
}

# Four printed digits of R's own defaults that its converged fit does not have: worth a line.
loose <- function(fit, first) {
  sum(signif(coef(summary(first))[, 1:2, drop = FALSE], 4) != signif(coef(summary(fit))[, 1:2, drop = FALSE], 4))
}

tables <- list()
now <- function(id, data, formula, family = "gaussian", r = formula, weights = NULL, offset = NULL, event = NULL) {
  frame <- frames[[data]]
  stopifnot(!is.null(frame), !(id %in% vapply(tables, `[[`, "", "id")))
  call <- if (family == "gaussian") quote(lm(data = frame)) else quote(glm(data = frame))
  call$formula <- as.formula(r, env = environment())
  if (family != "gaussian") call$family <- as.name(family)
  if (!is.null(weights)) call$weights <- as.name(weights)
  if (!is.null(offset)) call$offset <- as.name(offset)
  plain <- call
  fit <- first <- eval(call)
  if (family != "gaussian") for (again in 1:3) {
    call$etastart <- solution(fit, frame)
    fit <- eval(call)
  }
  table <- list(id = id, data = data, formula = formula, family = family, weights = weights,
                offset = offset, event = event,
                r = gsub("data = frame", paste("data =", data), paste(trimws(deparse(plain, width.cutoff = 500)), collapse = " "), fixed = TRUE),
                r_default_digits_off = loose(fit, first))
  tables[[length(tables) + 1]] <<- c(table, facts(fit))
}

# ---- the data sets, with where they were published ----

use("mtcars", mtcars, "datasets", "Motor Trend, 1974; Henderson and Velleman, Biometrics 37 (1981)")
use("iris", iris, "datasets", "Anderson, Bull. Am. Iris Soc. 59 (1935); Fisher (1936)")
use("airquality", airquality, "datasets", "New York State Department of Conservation, 1973; Chambers et al. (1983)",
    c("Ozone", "Solar.R", "Wind", "Temp", "Month"))
use("warpbreaks", warpbreaks, "datasets", "Tippett, Technological Applications of Statistics (1950)")
use("InsectSprays", InsectSprays, "datasets", "Beall, Biometrika 32 (1942)")
use("InsectSpraysFew", subset(InsectSprays, !spray %in% c("A", "D")), "datasets", "as InsectSprays, without the sprays A and D, whose levels stay")
use("esoph", esoph, "datasets", "Breslow and Day, Statistical Methods in Cancer Research 1 (1980)")
use("infert", infert, "datasets", "Trichopoulos et al., Br. J. Obst. Gynaec. 83 (1976)",
    c("education", "age", "induced", "case", "spontaneous"))
use("swiss", swiss, "datasets", "Mosteller and Tukey, Data Analysis and Regression (1977)")
use("stackloss", stackloss, "datasets", "Brownlee, Statistical Theory and Methodology (1960)")
use("ToothGrowth", ToothGrowth, "datasets", "Crampton, J. Nutrition 33 (1947)")
use("chickwts", chickwts, "datasets", "Anonymous, Biometrika 35 (1948)")
use("PlantGrowth", PlantGrowth, "datasets", "Dobson, An Introduction to Statistical Modelling (1983)")
use("quakes", quakes[seq(1, 1000, 4), ], "datasets", "Harvard PRIM-H project; every fourth of 1000 rows",
    c("depth", "mag", "stations"))
use("Puromycin", as.data.frame(Puromycin), "datasets", "Treloar, MSc thesis, Toronto (1974)")
use("CO2", as.data.frame(CO2), "datasets", "Potvin, Lechowicz and Tardif, Ecology 71 (1990)",
    c("Type", "Treatment", "conc", "uptake"))
use("LifeCycleSavings", LifeCycleSavings, "datasets", "Sterling (1977), in Belsley, Kuh and Welsch (1980)")
use("attitude", attitude, "datasets", "Chatterjee and Price, Regression Analysis by Example (1977)")
use("cars", cars, "datasets", "Ezekiel, Methods of Correlation Analysis (1930)")
use("women", women, "datasets", "The World Almanac and Book of Facts (1975)")
use("longley", longley, "datasets", "Longley, JASA 62 (1967)")
use("npk", npk, "datasets", "Venables and Ripley, Modern Applied Statistics with S (2002); Rothamsted")
use("Titanic", as.data.frame(Titanic), "datasets", "Dawson, J. Statistics Education 3 (1995); British Board of Trade (1990)")
use("UCBAdmissions", as.data.frame(UCBAdmissions), "datasets", "Bickel, Hammel and O'Connell, Science 187 (1975)")
use("HairEyeColor", as.data.frame(HairEyeColor), "datasets", "Snee, American Statistician 28 (1974)")
use("rock", rock, "datasets", "BP Research, image analysis by Ronit Katz, Oxford")
use("trees", trees, "datasets", "Meyer (1953), in Ryan, Joiner and Ryan, Minitab (1976)")
use("USArrests", USArrests, "datasets", "World Almanac (1975); McNeil (1977)",
    c("Murder", "Assault", "UrbanPop"))
use("ChickWeight", as.data.frame(ChickWeight), "datasets", "Crowder and Hand, Analysis of Repeated Measures (1990)",
    c("weight", "Time", "Diet"))
use("state", cbind(state.x77, data.frame(region = state.region)), "datasets", "US Bureau of the Census, Statistical Abstract (1977)",
    c("Life Exp", "Murder", "HS Grad", "Frost", "region"))
use("OrchardSprays", OrchardSprays, "datasets", "Finney, Probit Analysis (1947)")
use("beaver2", beaver2, "datasets", "Reynolds, in Lange et al., Case Studies in Biometry (1994)",
    c("temp", "activ"))
use("discoveries", data.frame(year = 1860:1959, count = as.numeric(discoveries)), "datasets", "The World Almanac and Book of Facts (1975)")

use("birthwt", within(birthwt, race <- factor(race, labels = c("white", "black", "other"))), "MASS", "Hosmer and Lemeshow, Applied Logistic Regression (1989)")
use("Insurance", Insurance, "MASS", "Baxter, Coutts and Ross (1980), in Aitkin et al. (1989)")
use("quine", quine, "MASS", "Quine (1975), in Aitkin, JRSS A 141 (1978)")
use("survey", survey, "MASS", "students of the University of Adelaide; Venables and Ripley (2002)",
    c("Sex", "Wr.Hnd", "Pulse", "Clap", "Exer", "Smoke", "Height", "M.I", "Age"))
use("anorexia", anorexia, "MASS", "Hand et al., A Handbook of Small Data Sets (1993)")
use("menarche", menarche, "MASS", "Milicer and Szczotka, Human Biology 38 (1966)")
use("bacteria", bacteria, "MASS", "A. Leach, Menzies School of Health Research, Darwin",
    c("y", "trt", "week"))
use("housing", housing, "MASS", "Madsen, Scand. J. Statist. 3 (1976)")
use("ships", subset(ships, service > 0), "MASS", "McCullagh and Nelder, Generalized Linear Models (1983)")
use("epil", epil, "MASS", "Thall and Vail, Biometrics 46 (1990)", c("y", "trt", "base", "age", "V4"))
use("Pima.tr", Pima.tr, "MASS", "Smith et al. (1988); US National Institute of Diabetes")
use("Pima.tr2", Pima.tr2, "MASS", "as Pima.tr, with missing values", c("glu", "bp", "skin", "bmi", "type"))
use("cats", cats, "MASS", "Fisher, Biometrics 3 (1947)")
use("crabs", crabs, "MASS", "Campbell and Mahon, Aust. J. Zoology 22 (1974)", c("sp", "sex", "RW", "CL"))
use("Melanoma", Melanoma, "MASS", "Andersen et al., Statistical Models Based on Counting Processes (1993)",
    c("status", "sex", "age", "thickness", "ulcer"))
use("snails", snails, "MASS", "Venables and Ripley, MASS (1999)",
    c("Species", "Exposure", "Temp", "Deaths", "N"))
use("Boston", Boston[seq(1, 506, 2), ], "MASS", "Harrison and Rubinfeld, J. Environ. Econ. Manag. 5 (1978); every second row",
    c("medv", "crim", "chas", "rm", "lstat", "rad"))
use("UScrime", UScrime, "MASS", "Ehrlich (1973), in Vandaele (1978)", c("y", "M", "Ed", "Po1", "So", "Prob"))
use("eagles", eagles, "MASS", "Knight and Skagen, Ecology 69 (1988)")
use("whiteside", whiteside, "MASS", "D. Whiteside, in Hand et al. (1993)")
use("oats", oats, "MASS", "Yates, J. Agric. Sci. 25 (1935)")
use("genotype", genotype, "MASS", "Scheffe, The Analysis of Variance (1959)")
use("Traffic", Traffic, "MASS", "Swedish road trials of 1961-62, in Svensson (1981)")
use("cabbages", cabbages, "MASS", "Rawlings, Applied Regression Analysis (1988)")
use("mammals", mammals, "MASS", "Allison and Cicchetti, Science 194 (1976)")
use("hills", hills, "MASS", "Atkinson, Statistical Science 3 (1988)")
use("biopsy", biopsy, "MASS", "W. H. Wolberg, University of Wisconsin Hospitals; Mangasarian and Wolberg (1990)",
    c("V1", "V2", "V6", "class"))
use("leuk", leuk, "MASS", "Feigl and Zelen, Biometrics 21 (1965)")
use("Rubber", Rubber, "MASS", "Davies, Statistical Methods in Research and Production (1947)")

use("lung", survival::lung, "survival", "Loprinzi et al., J. Clin. Oncol. 12 (1994); North Central Cancer Treatment Group",
    c("status", "age", "sex", "ph.ecog", "wt.loss"))
use("veteran", veteran, "survival", "Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data (1980)",
    c("trt", "celltype", "time", "karno", "prior"))
use("cgd", subset(cgd, enum == 1), "survival", "Fleming and Harrington, Counting Processes (1991); first rows of each patient",
    c("treat", "sex", "age", "hos.cat", "status"))
use("pbc", pbc[1:312, ], "survival", "Therneau and Grambsch (2000); Mayo Clinic; randomised patients",
    c("bili", "albumin", "age", "sex", "ascites", "stage", "chol", "edema"))
use("retinopathy", retinopathy, "survival", "Huster, Brookmeyer and Self, Biometrics 45 (1989)",
    c("laser", "age", "type", "trt", "status", "risk"))
use("kidney", survival::kidney, "survival", "McGilchrist and Aisbett, Biometrics 47 (1991)",
    c("status", "age", "sex"))
use("ovarian", ovarian, "survival", "Edmunson et al., Cancer Treatment Reports 63 (1979)",
    c("fustat", "age", "rx"))
use("rhDNase", rhDNase[!duplicated(rhDNase$id), ], "survival", "Therneau and Hamilton, Statist. Med. 16 (1997)",
    c("trt", "fev"))
use("tobin", tobin, "survival", "Tobin, Econometrica 26 (1958)")

use("breslow", transform(breslow, logn = log(n)), "boot", "Doll and Hill (1966), in Breslow (1985); logn is log(n)",
    c("age", "smoke", "n", "y", "logn"))
use("downs.bc", downs.bc, "boot", "Geyer, Annals of Human Genetics 55 (1991)")
use("nodal", nodal, "boot", "Brown (1980), in Biostatistics Casebook",
    c("r", "aged", "stage", "grade", "xray", "acid"))
use("urine", urine, "boot", "Andrews and Herzberg, Data (1985)")
use("remission", remission, "boot", "Freeman (1987); Davison and Hinkley (1997)", c("LI", "r"))
use("poisons", poisons, "boot", "Box and Cox, JRSS B 26 (1964)")
use("nitrofen", nitrofen, "boot", "Bailer and Oris, Environ. Toxicol. Chem. (1994)", c("conc", "total"))
use("salinity", salinity, "boot", "Ruppert and Carroll, JASA 75 (1980)")
use("cane", cane, "boot", "R. Adams, CSIRO; Davison and Hinkley (1997)", c("n", "r", "var", "block"))
use("calcium", calcium, "boot", "Rawlings, Applied Regression Analysis (1988)")

use("Orthodont", as.data.frame(Orthodont), "nlme", "Potthoff and Roy, Biometrika 51 (1964)",
    c("distance", "age", "Sex"))
use("Machines", as.data.frame(Machines), "nlme", "Milliken and Johnson, Analysis of Messy Data (1992)")
use("RatPupWeight", as.data.frame(RatPupWeight), "nlme", "Dempster et al., JASA 79 (1984)",
    c("weight", "sex", "Lsize", "Treatment"))
use("ergoStool", as.data.frame(ergoStool), "nlme", "Wretenberg, Arborelius and Lindberg, Applied Ergonomics 24 (1993)")
use("Gasoline", as.data.frame(Gasoline), "nlme", "Prater (1955), in Daniel and Wood (1980)",
    c("yield", "endpoint", "vapor", "ASTM", "API"))
use("kyphosis", kyphosis, "rpart", "Chambers and Hastie, Statistical Models in S (1992)")
use("stagec", stagec, "rpart", "Nativ et al., Mayo Clinic; Therneau and Atkinson (1997)",
    c("pgstat", "g2", "grade", "ploidy"))
use("car.test.frame", car.test.frame, "rpart", "Consumer Reports, April 1990",
    c("Mileage", "Type", "Weight", "HP"))
use("plantTraits", plantTraits, "cluster", "Vallet (2005), Cemagref",
    c("pdias", "longindex", "durflow", "begflow"))
use("barley", barley, "lattice", "Immer, Hayes and Powers, J. Am. Soc. Agronomy 26 (1934)")
use("ethanol", ethanol, "lattice", "Brinkman, SAE Transactions 90 (1981)")
use("singer", singer, "lattice", "New York Choral Society (1979), in Cleveland (1993)")
use("environmental", environmental, "lattice", "Bruntz et al. (1974), in Cleveland (1993)")

# ---- tables that the regression table must equal now ----

# lm: numbers, powers, logarithms, products
now("mtcars-plain", "mtcars", "mpg ~ wt + hp")
now("mtcars-factor", "mtcars", "mpg ~ wt * factor(cyl)")
now("mtcars-square", "mtcars", "log(mpg) ~ log(hp) + I(wt^2) + qsec")
now("mtcars-without-intercept", "mtcars", "mpg ~ factor(cyl) + wt - 1")
now("mtcars-zero-plus", "mtcars", "mpg ~ 0 + wt + disp")
now("mtcars-all", "mtcars", "mpg ~ .")
now("mtcars-pairs", "mtcars", "mpg ~ (wt + hp + qsec)^2")
now("mtcars-arithmetic", "mtcars", "I(hp / wt) ~ I(disp - 100) + I(2 * drat + gear)")
now("iris-by-species", "iris", "`Sepal.Length` ~ Species * `Petal.Width`")
now("iris-means", "iris", "`Sepal.Width` ~ Species - 1")
now("iris-dots", "iris", "Sepal.Length ~ Petal.Length + Petal.Width")
now("airquality", "airquality", "Ozone ~ `Solar.R` + Wind + Temp")
now("airquality-log", "airquality", "log(Ozone) ~ Wind * Temp + factor(Month)")
now("warpbreaks-sum", "warpbreaks", "breaks ~ C(wool, contr.sum) * C(tension, contr.sum)")
now("warpbreaks-helmert", "warpbreaks", "breaks ~ wool + C(tension, contr.helmert)")
now("warpbreaks-poly", "warpbreaks", "breaks ~ wool + C(tension, contr.poly)")
now("swiss-all", "swiss", "Fertility ~ .")
now("stackloss", "stackloss", "`stack.loss` ~ .")
now("ToothGrowth", "ToothGrowth", "len ~ supp * factor(dose)")
now("ToothGrowth-slopes", "ToothGrowth", "len ~ supp / dose - 1")
now("chickwts", "chickwts", "weight ~ feed")
now("chickwts-reference", "chickwts", "weight ~ C(feed, Treatment('soybean'))", r = "weight ~ relevel(feed, 'soybean')")
now("PlantGrowth", "PlantGrowth", "weight ~ group")
now("Puromycin", "Puromycin", "rate ~ log(conc) * state")
now("CO2", "CO2", "uptake ~ Type * Treatment + log(conc) + I(log(conc)^2)")
now("LifeCycleSavings", "LifeCycleSavings", "sr ~ pop15 + pop75 + dpi + ddpi")
now("attitude", "attitude", "rating ~ . - critical")
now("cars-raw", "cars", "dist ~ poly(speed, 2, raw = TRUE)")
now("cars-square", "cars", "dist ~ speed + I(speed^2) - 1")
now("women", "women", "weight ~ height + I(height^2)")
now("women-cubic", "women", "weight ~ height + I(height^2) + I(height^3)")
now("longley", "longley", "Employed ~ GNP.deflator + GNP + Unemployed + Armed.Forces + Population + Year")
now("npk", "npk", "yield ~ block + N * P * K")
now("npk-helmert", "npk", "yield ~ C(block, contr.helmert) + N + K")
now("rock", "rock", "log(perm) ~ area + peri + shape")
now("trees", "trees", "log(Volume) ~ log(Girth) + log(Height)")
now("USArrests", "USArrests", "Murder ~ Assault * UrbanPop")
now("ChickWeight", "ChickWeight", "weight ~ Time * Diet")
now("ChickWeight-within", "ChickWeight", "weight ~ Time:Diet")
now("state", "state", "`Life Exp` ~ Murder + `HS Grad` + Frost + region")
now("OrchardSprays", "OrchardSprays", "decrease ~ treatment + rowpos + colpos")
now("anorexia", "anorexia", "Postwt ~ Prewt + Treat + offset(Prewt)")
now("anorexia-reference", "anorexia", "Postwt ~ C(Treat, Treatment('Cont')) * Prewt", r = "Postwt ~ relevel(Treat, 'Cont') * Prewt")
now("survey-height", "survey", "Height ~ Sex + `Wr.Hnd` + `M.I`")
now("survey-pulse", "survey", "Pulse ~ Exer * Smoke + Age")
now("survey-pulse-none", "survey", "Pulse ~ C(Exer, Treatment('None')) + Smoke", r = "Pulse ~ relevel(Exer, 'None') + Smoke")
now("birthwt-weight", "birthwt", "bwt ~ age + lwt + race + smoke + ptl + ht + ui + ftv")
now("birthwt-weight-cut", "birthwt", "bwt ~ cut(age, c(10, 20, 25, 30, 50)) + race * smoke")
now("cats", "cats", "Hwt ~ Sex * Bwt")
now("crabs", "crabs", "RW ~ (sp + sex) * CL")
now("Boston", "Boston", "medv ~ log(crim) + chas + rm + I(rm^2) + lstat + log(rad)")
now("UScrime", "UScrime", "y ~ M + Ed + Po1 * So + Prob")
now("whiteside", "whiteside", "Gas ~ Insul / Temp - 1")
now("oats", "oats", "Y ~ B + V * N")
now("genotype", "genotype", "Wt ~ Litter * Mother")
now("genotype-crossed", "genotype", "Wt ~ Litter + Litter:Mother")
now("cabbages", "cabbages", "VitC ~ Cult * Date + HeadWt")
now("mammals", "mammals", "log10(brain) ~ log10(body)")
now("hills", "hills", "time ~ dist + climb", weights = "dist")
now("Rubber", "Rubber", "loss ~ hard + tens + I((tens - 180)^2 * (tens > 180))")
now("pbc-albumin", "pbc", "albumin ~ log(bili) + age + sex + factor(stage) + log(chol)")
now("lung-loss", "lung", "`wt.loss` ~ age + factor(sex) + factor(`ph.ecog`)")
now("poisons", "poisons", "I(1 / time) ~ poison * treat")
now("poisons-cells", "poisons", "time ~ poison:treat")
now("poisons-cells-only", "poisons", "time ~ poison:treat - 1")
now("salinity", "salinity", "sal ~ lag + trend + dis")
now("calcium", "calcium", "cal ~ log1p(time)")
now("Orthodont", "Orthodont", "distance ~ age * C(Sex, Treatment('Female'))", r = "distance ~ age * relevel(Sex, 'Female')")
now("Machines", "Machines", "score ~ Machine * Worker")
now("RatPupWeight", "RatPupWeight", "weight ~ Treatment * sex + Lsize")
now("ergoStool", "ergoStool", "effort ~ C(Type, contr.sum) + Subject")
now("Gasoline", "Gasoline", "yield ~ endpoint + vapor + ASTM + API")
now("car-test", "car.test.frame", "Mileage ~ Weight + Type + HP")
now("plantTraits", "plantTraits", "sqrt(pdias) ~ longindex + durflow + begflow")
now("barley", "barley", "yield ~ variety + site * year")
now("barley-nested", "barley", "yield ~ site / year")
now("ethanol", "ethanol", "NOx ~ C * (E + I(E^2))")
now("singer", "singer", "height ~ `voice.part`")
now("environmental", "environmental", "I(ozone^(1/3)) ~ radiation + temperature + wind + I(wind^2)")
now("nothing", "cats", "Hwt ~ 1")
now("tobin", "tobin", "durable ~ age + quant")
now("rhDNase", "rhDNase", "fev ~ trt")

# binomial: 0 and 1, two words, counts, shares
now("birthwt", "birthwt", "low ~ age + lwt + race + smoke + ptl + ht + ui + ftv", "binomial")
now("birthwt-age-squared", "birthwt", "low ~ age + I(age^2) + lwt", "binomial")
now("birthwt-reference", "birthwt", "low ~ age + C(race, Treatment('black')) + smoke", "binomial", r = "low ~ age + relevel(race, 'black') + smoke")
now("birthwt-by-race", "birthwt", "low ~ race:age + smoke", "binomial")
now("birthwt-cut", "birthwt", "low ~ cut(age, c(13, 19, 25, 45)) * smoke + ht", "binomial")
now("birthwt-older", "birthwt", "low ~ I(age > 24) + I(lwt < 110) + smoke:ui", "binomial")
now("infert", "infert", "case ~ spontaneous + induced + education", "binomial")
now("infert-factors", "infert", "case ~ factor(spontaneous) * factor(induced) + age", "binomial")
now("esoph", "esoph", "cbind(ncases, ncontrols) ~ agegp + alcgp + tobgp", "binomial")
now("esoph-poly", "esoph", "cbind(ncases, ncontrols) ~ C(alcgp, contr.poly) + C(tobgp, contr.poly) + C(agegp, contr.sum)", "binomial")
now("esoph-interaction", "esoph", "cbind(ncases, ncontrols) ~ alcgp * tobgp", "binomial")
now("menarche", "menarche", "cbind(Menarche, Total - Menarche) ~ Age", "binomial")
now("menarche-share", "menarche", "I(Menarche / Total) ~ Age + I(Age^2)", "binomial", weights = "Total")
now("snails-few", "snails", "cbind(Deaths, N - Deaths) ~ Species * (Exposure + Temp)", "binomial")
now("eagles", "eagles", "cbind(y, n - y) ~ P + A + V", "binomial")
now("downs", "downs.bc", "cbind(r, m - r) ~ age + I(age^2)", "binomial")
now("Titanic", "Titanic", "Survived ~ Class * Sex + Age", "binomial", weights = "Freq", event = "Yes")
now("birthwt-empty-cell", "birthwt", "low ~ factor(ht) * factor(ui) + lwt", "binomial")
now("UCBAdmissions", "UCBAdmissions", "Admit ~ Gender + Dept", "binomial", r = "relevel(Admit, 'Rejected') ~ Gender + Dept", weights = "Freq", event = "Admitted")
now("UCBAdmissions-cells", "UCBAdmissions", "Admit ~ Gender * Dept", "binomial", r = "relevel(Admit, 'Rejected') ~ Gender * Dept", weights = "Freq", event = "Admitted")
now("mtcars-am", "mtcars", "am ~ wt", "binomial")
now("beaver2", "beaver2", "activ ~ temp", "binomial")
now("bacteria", "bacteria", "y ~ trt + I(week > 2)", "binomial", event = "y")
now("bacteria-other-event", "bacteria", "y ~ trt * week", "binomial", r = "relevel(y, 'y') ~ trt * week", event = "n")
now("Pima", "Pima.tr", "type ~ npreg + glu + bp + skin + bmi + ped + age", "binomial", event = "Yes")
now("Pima-missing", "Pima.tr2", "type ~ glu + bp + skin + bmi", "binomial", event = "Yes")
now("survey-sex", "survey", "Sex ~ Height + `Wr.Hnd` + Clap", "binomial", event = "Male")
now("survey-smoke", "survey", "I(Smoke == 'Never') ~ Exer + Age", "binomial")
now("biopsy", "biopsy", "class ~ V1 + V2 + V6", "binomial", event = "malignant")
now("leuk", "leuk", "I(time > 52) ~ ag + log(wbc)", "binomial")
now("Melanoma", "Melanoma", "I(status == 1) ~ sex + age + log(thickness) + ulcer", "binomial")
now("lung", "lung", "I(status - 1) ~ age + sex + `ph.ecog`", "binomial")
now("veteran", "veteran", "I(time > 100) ~ trt + celltype * karno + prior", "binomial")
now("cgd", "cgd", "status ~ treat + sex + age + `hos.cat`", "binomial")
now("pbc-ascites", "pbc", "ascites ~ log(bili) + albumin + edema", "binomial")
now("retinopathy", "retinopathy", "status ~ laser * type + age + trt + risk", "binomial")
now("kidney", "kidney", "status ~ age + factor(sex)", "binomial")
now("nodal", "nodal", "r ~ aged + stage + grade + xray + acid", "binomial")
now("urine", "urine", "r ~ gravity + ph + osmo + cond + urea + calc", "binomial")
now("remission", "remission", "r ~ LI", "binomial")
now("kyphosis", "kyphosis", "Kyphosis ~ Age + Number + Start + I(Age^2)", "binomial", event = "present")
now("stagec", "stagec", "pgstat ~ g2 + grade + ploidy", "binomial")
now("ovarian", "ovarian", "fustat ~ age + rx", "binomial")
now("quine-eth", "quine", "Eth ~ Sex * Age + Days", "binomial", event = "N")
now("housing-cont", "housing", "Cont ~ Infl + Type", "binomial", weights = "Freq", event = "High")

# poisson: counts, offsets, log-linear tables
now("Insurance", "Insurance", "Claims ~ District + Group + Age + offset(log(Holders))", "poisson")
now("Insurance-sum", "Insurance", "Claims ~ C(District, contr.sum) + C(Age, contr.poly) + offset(log(Holders))", "poisson")
now("Insurance-null", "Insurance", "Claims ~ 1 + offset(log(Holders))", "poisson")
now("quine", "quine", "Days ~ Eth + Sex + Age + Lrn", "poisson")
now("quine-empty-cell", "quine", "Days ~ Eth * Sex + Age * Lrn", "poisson")
now("ships", "ships", "incidents ~ type + factor(year) + factor(period) + offset(log(service))", "poisson")
now("epil", "epil", "y ~ log(base) * trt + log(age) + V4", "poisson")
now("warpbreaks", "warpbreaks", "breaks ~ wool * tension", "poisson")
now("warpbreaks-cells", "warpbreaks", "breaks ~ wool:tension", "poisson")
now("InsectSprays", "InsectSprays", "count ~ spray", "poisson")
now("InsectSprays-unused-levels", "InsectSpraysFew", "count ~ spray", "poisson")
now("quakes", "quakes", "stations ~ mag + I(depth / 100)", "poisson")
now("discoveries", "discoveries", "count ~ year + I(year^2)", "poisson")
now("HairEyeColor", "HairEyeColor", "Freq ~ Hair * Eye + Sex", "poisson")
now("HairEyeColor-all-pairs", "HairEyeColor", "Freq ~ (Hair + Eye + Sex)^2", "poisson")
now("UCB-loglinear", "UCBAdmissions", "Freq ~ Dept * (Admit + Gender)", "poisson")
now("housing-loglinear", "housing", "Freq ~ Infl * Type + Sat * Cont", "poisson")
now("Traffic", "Traffic", "y ~ limit + factor(year) + I(day / 92)", "poisson")
now("breslow", "breslow", "y ~ factor(age) + smoke + offset(log(n))", "poisson")
now("breslow-argument", "breslow", "y ~ age + smoke", "poisson", offset = "logn")
now("nitrofen", "nitrofen", "total ~ conc + I(conc^2)", "poisson")
now("esoph-counts", "esoph", "ncases ~ agegp + alcgp + offset(log(ncases + ncontrols))", "poisson")
now("cane", "cane", "r ~ var + block + offset(log(n))", "poisson")
now("eagles-weights", "eagles", "y ~ P * A", "poisson", weights = "n")
now("mtcars-carb", "mtcars", "carb ~ hp + factor(gear)", "poisson")

# ---- families, links and covariances that come later ----

later_tables <- list()
remember <- function(id, data, formula, family, link, r, facts, ...) {
  table <- list(id = id, data = data, formula = formula, family = family, link = link, ..., r = r)
  later_tables[[length(later_tables) + 1]] <<- c(table, facts)
}

later <- function(id, data, formula, family, link, r = formula, weights = NULL, event = NULL, covariance = "model") {
  frame <- frames[[data]]
  call <- quote(glm(data = frame))
  call$formula <- as.formula(r, env = environment())
  call$family <- call(family, link = link)
  if (!is.null(weights)) call$weights <- as.name(weights)
  plain <- gsub("data = frame", paste("data =", data), paste(trimws(deparse(call, width.cutoff = 500)), collapse = " "), fixed = TRUE)
  fit <- eval(call)
  for (again in 1:40) {  # without a canonical link its steps gain a digit or two each
    call$etastart <- solution(fit, frame)
    fit <- eval(call)
  }
  found <- facts(fit)
  if (covariance != "model") {
    V <- robust(fit, covariance); se <- sqrt(diag(V))
    half <- if (family == "gaussian") qt(0.975, df.residual(fit)) else qnorm(0.975)
    t <- found$coef / se
    found$std_err <- several(se); found$statistic <- several(t)
    found$p <- several(if (family == "gaussian") 2 * pt(-abs(t), df.residual(fit)) else 2 * pnorm(-abs(t)))
    found$low <- several(found$coef - half * se); found$high <- several(found$coef + half * se)
  } else if (found$distribution == "t") {  # confint.default has normal quantiles beside t values
    found$low_normal <- found$low; found$high_normal <- found$high
    half <- qt(0.975, df.residual(fit)) * found$std_err
    found$low <- several(found$coef - half); found$high <- several(found$coef + half)
  }
  remember(id, data, formula, family, link, plain, found, weights = weights, event = event, covariance = covariance)
}

# White's sandwich and its corrections for leverage, as sandwich::vcovHC has them
robust <- function(fit, kind) {
  X <- model.matrix(fit); n <- nrow(X); k <- ncol(X)
  w <- fit$weights; u <- residuals(fit, "working") * w; h <- hatvalues(fit)
  u2 <- switch(kind, HC0 = u^2, HC1 = u^2 * n / (n - k), HC2 = u^2 / (1 - h), HC3 = u^2 / (1 - h)^2)
  bread <- solve(crossprod(X, X * w))
  bread %*% crossprod(X, X * u2) %*% bread
}

later("trees-gamma", "trees", "Volume ~ log(Girth) + log(Height)", "Gamma", "log")
later("poisons-gamma", "poisons", "time ~ poison + treat", "Gamma", "inverse")
later("Insurance-gamma", "Insurance", "I(Claims / Holders + 0.01) ~ Age + Group", "Gamma", "log")
later("ChickWeight-gamma", "ChickWeight", "weight ~ Time * Diet", "Gamma", "log")
later("pbc-gamma", "pbc", "bili ~ age + sex + factor(stage)", "Gamma", "log")
later("trees-inverse-gaussian", "trees", "Volume ~ log(Girth) + log(Height)", "inverse.gaussian", "log")
later("poisons-inverse-gaussian", "poisons", "time ~ poison + treat", "inverse.gaussian", "1/mu^2")
later("quine-quasi", "quine", "Days ~ Eth + Sex + Age + Lrn", "quasipoisson", "log")
later("Insurance-quasi", "Insurance", "Claims ~ District + Age + offset(log(Holders))", "quasipoisson", "log")
later("ships-quasi", "ships", "incidents ~ type + factor(year) + factor(period) + offset(log(service))", "quasipoisson", "log")
later("esoph-quasi", "esoph", "cbind(ncases, ncontrols) ~ agegp + alcgp", "quasibinomial", "logit")
later("birthwt-quasi", "birthwt", "low ~ age + race + smoke", "quasibinomial", "logit")
later("birthwt-probit", "birthwt", "low ~ age + lwt + race + smoke", "binomial", "probit")
later("menarche-probit", "menarche", "cbind(Menarche, Total - Menarche) ~ Age", "binomial", "probit")
later("bacteria-probit", "bacteria", "y ~ trt + week", "binomial", "probit", event = "y")
later("Titanic-probit", "Titanic", "Survived ~ Class + Sex + Age", "binomial", "probit", weights = "Freq", event = "Yes")
later("birthwt-cloglog", "birthwt", "low ~ age + lwt + race + smoke", "binomial", "cloglog")
later("menarche-cloglog", "menarche", "cbind(Menarche, Total - Menarche) ~ Age", "binomial", "cloglog")
later("esoph-cloglog", "esoph", "cbind(ncases, ncontrols) ~ agegp + alcgp", "binomial", "cloglog")
for (kind in c("HC0", "HC1", "HC2", "HC3")) {
  later(paste0("mtcars-", kind), "mtcars", "mpg ~ wt * factor(cyl)", "gaussian", "identity", covariance = kind)
  later(paste0("birthwt-", kind), "birthwt", "low ~ age + lwt + race + smoke", "binomial", "logit", covariance = kind)
  later(paste0("quine-", kind), "quine", "Days ~ Eth + Sex + Age + Lrn", "poisson", "log", covariance = kind)
}

negative <- function(id, data, formula) {
  frame <- frames[[data]]
  call <- call("glm.nb", as.formula(formula, env = environment()), data = quote(frame), control = quote(glm.control(epsilon = 1e-13, maxit = 500)))
  fit <- eval(call)
  s <- summary(fit); table <- coef(s); interval <- confint.default(fit)
  found <- list(names = several(rownames(table)), pieces = unname(pieces(fit)), aliased = several(character()),
                coef = several(table[, 1]), std_err = several(table[, 2]), statistic = several(table[, 3]), p = several(table[, 4]),
                low = several(interval[, 1]), high = several(interval[, 2]), distribution = "z",
                rows = nrow(model.frame(fit)), dropped = length(na.action(fit)),
                theta = fit$theta, theta_std_err = fit$SE.theta, deviance = deviance(fit), null_deviance = fit$null.deviance,
                df_residual = df.residual(fit), dispersion = 1, pearson = sum(residuals(fit, "pearson")^2),
                log_likelihood = as.numeric(logLik(fit)), aic = AIC(fit), bic = BIC(fit))
  remember(id, data, formula, "negative binomial", "log", sprintf("glm.nb(%s, data = %s)", formula, data), found, covariance = "model")
}
negative("quine-negative-binomial", "quine", "Days ~ Eth + Sex + Age + Lrn")
negative("epil-negative-binomial", "epil", "y ~ log(base) * trt + log(age) + V4")
negative("warpbreaks-negative-binomial", "warpbreaks", "breaks ~ wool * tension")

# polr's optimiser leaves about six digits, its Hessian by differences about four
ordinal <- function(id, data, formula, weights = NULL) {
  frame <- frames[[data]]
  call <- call("polr", as.formula(formula, env = environment()), data = quote(frame), Hess = TRUE, control = quote(list(reltol = 1e-16, maxit = 1000)))
  if (!is.null(weights)) call$weights <- as.name(weights)
  fit <- eval(call)
  table <- coef(summary(fit)); p <- length(coef(fit))
  found <- list(names = several(rownames(table)), coef = several(table[, 1]), std_err = several(table[, 2]), statistic = several(table[, 3]),
                thresholds = nrow(table) - p, deviance = deviance(fit), df_residual = fit$df.residual,
                log_likelihood = as.numeric(logLik(fit)), aic = AIC(fit), rows = fit$nobs)
  remember(id, data, formula, "ordinal", "logit", sprintf("polr(%s, data = %s)", formula, data), found, weights = weights, levels = several(fit$lev), covariance = "model")
}
ordinal("housing-ordinal", "housing", "Sat ~ Infl + Type + Cont", weights = "Freq")
ordinal("survey-ordinal", "survey", "Smoke ~ Exer + Sex + Age")
ordinal("pbc-ordinal", "pbc", "factor(stage) ~ log(bili) + age")

# ---- the file ----

lines <- function(x) paste0("\n  ", vapply(x, json, ""), collapse = ",")
sets <- paste0("\n  ", quoted(names(datasets)), ": ", vapply(datasets, json, ""), collapse = ",")
text <- sprintf('{"made_with": %s,\n "datasets": {%s},\n "tables": [%s],\n "later": [%s]}\n',
                quoted(R.version.string), sets, lines(tables), lines(later_tables))
out <- file(file.path(folder, "tables.json"), "w", encoding = "UTF-8")
cat(text, file = out, sep = "")
close(out)
cat(length(tables), "tables of", length(unique(vapply(tables, `[[`, "", "data"))), "data sets;", length(later_tables), "for later\n")
