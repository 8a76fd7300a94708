# The facts of families.json: run `Rscript families.R > families.json` where R and MASS are.
# Each case holds its call; data are R's own, with the columns that the formulas need.
library(MASS)
exact <- glm.control(epsilon = 1e-14, maxit = 200)
clotting <- data.frame(
  u = c(5, 10, 15, 20, 30, 40, 60, 80, 100, 5, 10, 15, 20, 30, 40, 60, 80, 100),
  time = c(118, 58, 42, 35, 27, 25, 21, 19, 18, 69, 35, 26, 21, 18, 16, 13, 12, 12),
  lot = rep(0:1, each = 9))  # help(glm): plasma of two lots
birth <- birthwt[c("low", "age", "lwt", "smoke", "ht", "ftv")]
cars <- mtcars[c("mpg", "wt", "hp", "am", "carb")]
breaks <- data.frame(breaks = warpbreaks$breaks, wool = as.numeric(warpbreaks$wool == "B"),
                     tension = as.numeric(warpbreaks$tension) - 1)
days <- data.frame(Days = quine$Days, Eth = as.numeric(quine$Eth == "N"),
                   Sex = as.numeric(quine$Sex == "M"), Lrn = as.numeric(quine$Lrn == "SL"))

num <- function(x) ifelse(is.na(x), "null", sprintf("%.17g", x))
vec <- function(x) paste0("[", paste(num(as.numeric(x)), collapse = ", "), "]")
text <- function(x) paste0('"', x, '"')
fields <- function(...) {
  parts <- list(...)
  paste0("{", paste(sprintf('"%s": %s', names(parts), unlist(parts)), collapse = ", "), "}")
}
case <- function(data, family, link, call) {
  fit <- eval(parse(text = call))
  s <- if (inherits(fit, "negbin") || grepl("negative.binomial", call)) summary(fit, dispersion = 1)
       else summary(fit)
  b <- s$coefficients
  fields(
    data = text(data), family = text(family), link = text(link), call = text(gsub('"', "'", call)),
    formula = text(paste(deparse(formula(fit)), collapse = "")),
    coef = vec(b[, 1]), std_err = vec(b[, 2]), statistic = vec(b[, 3]), p = vec(b[, 4]),
    dispersion = num(s$dispersion), deviance = num(fit$deviance), df = num(fit$df.residual),
    null_deviance = num(fit$null.deviance), aic = num(AIC(fit)),
    log_likelihood = num(as.numeric(logLik(fit))),
    pearson = num(sum(residuals(fit, "pearson")^2)),
    theta = num(if (is.null(fit$theta)) NA else fit$theta),
    # MASS stops theta.ml at 1e-4 and takes its information one step before: here where it ends
    theta_se = num(if (is.null(fit$theta)) NA else {
      th <- fit$theta; mu <- fitted(fit); y <- fit$y
      i <- sum(-trigamma(th + y) + trigamma(th) - 1/th + 2/(mu + th) - (y + th)/(mu + th)^2)
      stopifnot(abs(fit$SE.theta * sqrt(i) - 1) < 1e-3)
      1/sqrt(i)
    }),
    weight = text(if (grepl("weights = lwt", call)) "lwt" else ""))
}
glm_case <- function(data, family, link, formula, rfamily, more = "") {
  case(data, family, link,
       sprintf("glm(%s, %s, data = %s%s, control = exact)", formula, rfamily, data, more))
}
one <- function(data, family, rname, links, formula, more = "") {
  sapply(links, function(link)
    glm_case(data, family, link, formula, sprintf("%s(link = '%s')", rname, link), more))
}
cases <- c(
  one("birth", "binomial", "binomial", c("logit", "probit", "cloglog", "cauchit"),
      "low ~ age + lwt + smoke + ht"),
  one("birth", "binomial", "binomial", "log", "low ~ smoke + ht + age", ", start = c(-1, 0, 0, 0)"),
  one("birth", "quasibinomial", "quasibinomial", c("logit", "probit", "cloglog"),
      "low ~ age + lwt + smoke + ht"),
  one("breaks", "poisson", "poisson", c("log", "identity", "sqrt"), "breaks ~ wool + tension"),
  one("breaks", "quasipoisson", "quasipoisson", c("log", "identity", "sqrt"),
      "breaks ~ wool + tension"),
  one("clotting", "gamma", "Gamma", c("inverse", "log"), "time ~ log(u) + lot"),
  one("cars", "gamma", "Gamma", c("inverse", "log", "identity"), "mpg ~ wt + hp + am"),
  one("birth", "gamma", "Gamma", "log", "I(ftv + 1) ~ age + smoke + ht", ", weights = lwt"),
  one("cars", "inverse_gaussian", "inverse.gaussian", c("1/mu^2", "inverse", "log", "identity"),
      "mpg ~ wt + hp + am"),
  one("cars", "gaussian", "gaussian", c("identity", "log", "inverse"), "mpg ~ wt + hp + am"),
  glm_case("days", "negative_binomial", "log", "Days ~ Eth + Sex + Lrn", "negative.binomial(1.5)"),
  case("days", "negative_binomial", "log",
       "glm.nb(Days ~ Eth + Sex + Lrn, data = days, control = exact)"),
  case("breaks", "negative_binomial", "log",
       "glm.nb(breaks ~ wool + tension, data = breaks, control = exact)"))
homes <- with(housing, data.frame(
  Sat = as.numeric(Sat), Freq = Freq, Infl = as.numeric(Infl) - 1,
  Tower = as.numeric(Type == "Tower"), Terrace = as.numeric(Type == "Terrace"),
  Cont = as.numeric(Cont) - 1))
# polr's Hessian is of differences of 1e-3: columns of size 1 suit it
visits <- with(birthwt, data.frame(ftv = pmin(ftv, 2), age = age / 30, lwt = lwt / 100, smoke))
polr_case <- function(data, call) {
  fit <- eval(parse(text = call))
  s <- summary(fit)$coefficients  # thresholds after coefficients, as our table has them
  fields(
    data = text(data), call = text(call), coef = vec(s[, 1]), std_err = vec(s[, 2]),
    names = paste0("[", paste(text(rownames(s)), collapse = ", "), "]"),
    deviance = num(fit$deviance), aic = num(AIC(fit)), edf = num(fit$edf),
    fitted = vec(fit$fitted.values[1:3, ]))
}
tight <- "Hess = TRUE, control = list(reltol = 1e-16, maxit = 2000)"
ordinal <- c(
  polr_case("homes", paste("polr(factor(Sat) ~ Infl + Tower + Terrace + Cont, weights = Freq,",
                           "data = homes,", tight, ")")),
  polr_case("visits", paste("polr(factor(ftv) ~ age + lwt + smoke, data = visits,", tight, ")")))
# Firth (1993), written here: g = X'(w(y - p) + h(1/2 - p)), h the diagonal of the weighted hat
# matrix, and steps by Fisher's information, whose inverse gives the standard errors as in logistf
firth <- function(X, y, w = rep(1, length(y))) {
  b <- rep(0, ncol(X))
  for (step in 1:500) {
    p <- plogis(drop(X %*% b)); W <- w * p * (1 - p)
    I <- crossprod(X, W * X); V <- solve(I)
    h <- W * rowSums((X %*% V) * X)
    move <- drop(V %*% crossprod(X, w * (y - p) + h * (0.5 - p)))
    b <- b + move * min(1, 2 / max(abs(move)))
  }
  stopifnot(max(abs(move)) < 1e-12)
  list(b = b, se = sqrt(diag(V)),
       ll = sum(w * (y * log(p) + (1 - y) * log(1 - p))) + determinant(I)$modulus / 2)
}
# by hand: with one column of 0 and 1 the estimate is that of the table with 1/2 in each cell added
y <- rep(c(1, 0, 1, 0), c(7, 3, 0, 12)); x <- rep(c(1, 1, 0, 0), c(7, 3, 0, 12))
two <- firth(unname(cbind(1, x)), y)
stopifnot(all.equal(two$b[1], log(0.5 / 12.5)), all.equal(sum(two$b), log(7.5 / 3.5)))
firth_case <- function(data, call) {
  f <- eval(parse(text = call))
  fields(data = text(data), call = text(gsub('"', "'", call)), coef = vec(f$b), std_err = vec(f$se),
         log_likelihood = num(f$ll))
}
birth$none <- as.numeric(birth$ftv >= 3 & birth$low == 0)  # separates
penalised <- c(
  firth_case("birth", 'with(birth, firth(cbind(1, age, lwt, smoke, ht), low))'),
  firth_case("birth", 'with(birth, firth(cbind(1, lwt, none), low))'),
  firth_case("birth", 'with(birth, firth(cbind(1, smoke, none), low, ftv + 1))'))
frames <- list(homes = homes, visits = visits, birth = birth, cars = cars, breaks = breaks, days = days, clotting = clotting)
sheet <- function(d) do.call(fields, lapply(d, vec))
cat('{"data": {\n')
cat(paste(sprintf('"%s": %s', names(frames), sapply(frames, sheet)), collapse = ",\n"))
cat('},\n"cases": [\n')
cat(paste(cases, collapse = ",\n"))
cat('],\n"firth": [\n')
cat(paste(penalised, collapse = ",\n"))
cat('],\n"ordinal": [\n')
cat(paste(ordinal, collapse = ",\n"))
cat("]}\n")
