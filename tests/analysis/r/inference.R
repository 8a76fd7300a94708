# R's numbers for test_robust.py and test_inference.py: facts, made once, with the code beside them.
#
#   Rscript tests/analysis/r/inference.R [FOLDER]
#
# writes FOLDER/NAME.csv (data that come with R) and FOLDER/inference.json. sandwich, lmtest and car
# are not needed: what they compute is written out here, with the name of their function.

suppressPackageStartupMessages(library(MASS))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- if (length(arguments)) arguments[1] else "tests/analysis/r"
options(digits = 15)

# ---- data: sites are made up, blocks lie within sites ----

shared <- function(data) {
  i <- seq_len(nrow(data))
  data$site <- letters[(i * 7) %% 4 + 1]
  data$block <- paste0(data$site, (i * 5) %% 3)
  data
}
data(birthwt, package = "MASS")
birthwt$race <- c("white", "black", "other")[birthwt$race]
birthwt$race <- relevel(factor(birthwt$race), "black")
cars <- mtcars
cars$cyl <- factor(paste0("c", cars$cyl))
Insurance <- MASS::Insurance
for (name in c("District", "Group", "Age")) {
  Insurance[[name]] <- factor(paste0("l", as.integer(Insurance[[name]])))
}
warpbreaks$tension <- factor(as.character(warpbreaks$tension))  # H, L, M
menarche <- MASS::menarche
menarche$share <- menarche$Menarche / menarche$Total
sets <- lapply(
  list(
    birthwt = birthwt[c("low", "age", "lwt", "race", "smoke")],
    mtcars = cars[c("mpg", "wt", "hp", "cyl", "carb")],
    insurance = Insurance, warpbreaks = warpbreaks, menarche = menarche[c("share", "Age", "Total")]
  ), shared
)
for (name in names(sets)) {
  path <- file.path(folder, paste0(name, ".csv"))
  write.csv(sets[[name]], path, row.names = FALSE, quote = FALSE)
}

# ---- models; glm iterates until nothing moves ----

exact <- glm.control(epsilon = 1e-14, maxit = 100)
fits <- list(
  birthwt = glm(low ~ age + lwt + race + smoke, binomial, sets$birthwt, control = exact),
  mtcars = lm(mpg ~ wt + hp + cyl, sets$mtcars),
  weighted = lm(mpg ~ wt + hp + cyl, sets$mtcars, weights = carb),
  insurance = glm(Claims ~ District + Group + Age + offset(log(Holders)), poisson, sets$insurance,
                  control = exact),
  warpbreaks = glm(breaks ~ wool * tension, poisson, sets$warpbreaks, control = exact),
  menarche = glm(share ~ Age, binomial, sets$menarche, weights = Total, control = exact),
  probit = glm(low ~ age + lwt + race + smoke, binomial("probit"), sets$birthwt, control = exact),
  gamma = glm(mpg ~ wt + hp + cyl, Gamma("log"), sets$mtcars, control = exact),
  reciprocal = glm(mpg ~ wt + hp, Gamma("inverse"), sets$mtcars, control = exact),
  quasi = glm(breaks ~ wool + tension, quasipoisson, sets$warpbreaks, control = exact)
)
table_of <- c(weighted = "mtcars", probit = "birthwt", gamma = "mtcars", reciprocal = "mtcars",
              quasi = "warpbreaks")
smaller <- list(
  birthwt = update(fits$birthwt, . ~ . - race - lwt), mtcars = update(fits$mtcars, . ~ wt),
  weighted = update(fits$weighted, . ~ wt), insurance = update(fits$insurance, . ~ . - Age),
  warpbreaks = update(fits$warpbreaks, . ~ wool), probit = update(fits$probit, . ~ age),
  gamma = update(fits$gamma, . ~ wt), quasi = update(fits$quasi, . ~ wool)
)

# ---- sandwich::vcovHC and sandwich::vcovCL(type = "HC1") ----

unscaled <- function(fit) summary(fit)$cov.unscaled
scores <- function(fit) {
  if (inherits(fit, "glm")) {
    return(model.matrix(fit) * residuals(fit, "working") * weights(fit, "working"))
  }
  w <- if (is.null(fit$weights)) 1 else fit$weights
  model.matrix(fit) * residuals(fit) * w
}
vcovHC <- function(fit, type) {
  u <- scores(fit); n <- nrow(u); h <- hatvalues(fit)
  omega <- switch(type, HC0 = 1, HC1 = n / (n - ncol(u)), HC2 = 1 / (1 - h), HC3 = 1 / (1 - h)^2)
  unscaled(fit) %*% crossprod(u, u * omega) %*% unscaled(fit)
}
vcovCL <- function(fit, cluster) {
  u <- scores(fit); n <- nrow(u)
  sums <- rowsum(u, cluster); G <- nrow(sums)
  factor <- G / (G - 1) * (n - 1) / (n - ncol(u))
  unscaled(fit) %*% crossprod(sums) %*% unscaled(fit) * factor
}

# ---- where the dispersion is estimated: F and t ----

dispersed <- function(fit) !(inherits(fit, "glm") && family(fit)$family %in% c("binomial", "poisson"))

# ---- tests: drop1, anova, and Wald's b'V^-1 b ----

columns_of <- function(fit, term) which(attr(model.matrix(fit), "assign") == match(term, terms_of(fit)))
terms_of <- function(fit) attr(terms(fit), "term.labels")
wald <- function(fit, V = vcov(fit)) {
  lapply(setNames(nm = drop.scope(fit)), function(term) {
    at <- columns_of(fit, term); b <- coef(fit)[at]; q <- length(at)
    chi2 <- drop(b %*% solve(V[at, at, drop = FALSE], b))
    if (!dispersed(fit)) c(q, chi2, pchisq(chi2, q, lower.tail = FALSE))
    else c(q, chi2 / q, pf(chi2 / q, q, df.residual(fit), lower.tail = FALSE))
  })
}
lr <- function(fit) {
  if (inherits(fit, "glm") && dispersed(fit)) {  # drop1's F would take another dispersion
    without <- function(term) compare(update(fit, paste(". ~ . -", term)), fit)
    return(lapply(setNames(nm = drop.scope(fit)), without))
  }
  got <- drop1(fit, test = if (inherits(fit, "glm")) "Chisq" else "F")[-1, ]
  value <- if (inherits(fit, "glm")) got$LRT else got[["F value"]]
  p <- if (inherits(fit, "glm")) got[["Pr(>Chi)"]] else got[["Pr(>F)"]]
  setNames(lapply(seq_len(nrow(got)), function(i) c(got$Df[i], value[i], p[i])), rownames(got))
}
compare <- function(one, other) {
  got <- anova(one, other, test = if (dispersed(one)) "F" else "Chisq")[2, ]
  if (!dispersed(one)) c(got$Df, got$Deviance, got[["Pr(>Chi)"]])
  else c(got$Df, got$F, got[["Pr(>F)"]])
}

# ---- contrasts (multcomp::glht, one at a time), car::vif, predict ----

contrast <- function(fit, weights, against = 0) {
  b <- sum(weights * coef(fit)[names(weights)])
  V <- vcov(fit)[names(weights), names(weights)]
  se <- sqrt(drop(weights %*% V %*% weights)); z <- (b - against) / se
  quantile <- if (dispersed(fit)) qt(0.975, df.residual(fit)) else qnorm(0.975)
  p <- if (!dispersed(fit)) 2 * pnorm(-abs(z)) else 2 * pt(-abs(z), df.residual(fit))
  c(b, se, z, p, b - quantile * se, b + quantile * se)
}
vif <- function(fit) {
  R <- cov2cor(vcov(fit)[-1, -1])
  lapply(setNames(nm = terms_of(fit)), function(term) {
    at <- columns_of(fit, term) - 1
    g <- det(R[at, at, drop = FALSE]) * det(R[-at, -at, drop = FALSE]) / det(R)
    c(length(at), g, g^(1 / (2 * length(at))))
  })
}
new_rows <- c(1, 5, 20)
predicted <- function(fit, data) {
  new <- data[new_rows, ]
  if (!inherits(fit, "glm")) {
    inside <- predict(fit, new, interval = "confidence")
    row <- suppressWarnings(predict(fit, new, interval = "prediction"))
    return(list(mean = inside[, 1], low = inside[, 2], high = inside[, 3],
                row_low = row[, 2], row_high = row[, 3]))
  }
  z <- predict(fit, new, se.fit = TRUE)
  half <- z$se.fit * if (dispersed(fit)) qt(0.975, df.residual(fit)) else qnorm(0.975)
  back <- family(fit)$linkinv
  ends <- list(back(z$fit - half), back(z$fit + half))
  list(mean = back(z$fit), low = do.call(pmin, ends), high = do.call(pmax, ends))
}

# ---- all of it ----

json <- function(x) {
  if (is.list(x)) {
    return(paste0("{", paste0('"', names(x), '": ', vapply(x, json, ""), collapse = ", "), "}"))
  }
  each <- if (is.character(x)) paste0('"', x, '"') else sprintf("%.15g", x)
  paste0("[", paste(each, collapse = ", "), "]")
}
covariances <- function(fit, data) {
  kinds <- setNames(nm = c("HC0", "HC1", "HC2", "HC3"))
  each <- lapply(kinds, function(kind) sqrt(diag(vcovHC(fit, kind))))
  c(each, list(site = sqrt(diag(vcovCL(fit, data$site))), block = sqrt(diag(vcovCL(fit, data$block)))))
}
found <- lapply(setNames(nm = names(fits)), function(name) {
  fit <- fits[[name]]; data <- sets[[if (name %in% names(table_of)) table_of[name] else name]]
  list(coef = coef(fit), se = covariances(fit, data), wald = wald(fit), robust_wald = wald(fit, vcovHC(fit, "HC3")),
       lr = lr(fit), predicted = predicted(fit, data),
       off_diagonal = vcovHC(fit, "HC3")[1, ])
})
for (name in names(smaller)) {
  found[[name]]$compare <- compare(smaller[[name]], fits[[name]])
  found[[name]]$vif <- vif(fits[[name]])
}
found$birthwt$contrast <- contrast(fits$birthwt, c(raceother = 1, racewhite = -1))
found$mtcars$contrast <- contrast(fits$mtcars, c(wt = 2, hp = -10), against = -5)
writeLines(paste0("{", paste0('"', names(found), '": ', vapply(found, json, ""), collapse = ",\n"), "}"),
           file.path(folder, "inference.json"))
