"""The checks of notebook 10 on right and wrong answers."""

import torch

from vit_tutorial import check

from .variants import judged


def centred(z):
    return z - z.mean(0)


def along(z, count, of=centred, directions=lambda V, count: V[:, :count]):
    """How far tokens lie along the directions of most variation of what `of` makes of them."""
    V = torch.linalg.svd(of(z), full_matrices=False)[2].T
    return of(z) @ directions(V, count)


def by_covariance(z, count, order=lambda V: V.flip(1)):
    _, V = torch.linalg.eigh(centred(z).T @ centred(z))
    return centred(z) @ order(V)[:, :count]


def solved(Z, y, penalty):
    return Z.T @ torch.linalg.solve(Z @ Z.T + penalty * torch.eye(len(y)), y)


RIGHT = {
    check.principal_components: {
        "U times S": lambda z, count: (usv := torch.linalg.svd(centred(z)))[0][:, :count] * usv[1][:count],
        "eigenvectors, the largest last": by_covariance,
        "turned round": lambda z, count: -along(z, count),
        "torch.pca_lowrank": lambda z, count: centred(z) @ torch.pca_lowrank(z, q=z.shape[1], niter=9)[2][:, :count],
        "float32": lambda z, count: along(z, count).float(),
    },
    check.direction: {
        "without gradients": torch.no_grad()(solved),
        "an inverse of D by D": lambda Z, y, penalty: (
            torch.inverse(Z.T @ Z + penalty * torch.eye(Z.shape[1])) @ Z.T @ y
        ),
        "least squares with more rows": lambda Z, y, penalty: (
            torch.linalg.lstsq(
                torch.cat([Z, penalty**0.5 * torch.eye(Z.shape[1])]), torch.cat([y, torch.zeros(Z.shape[1])])
            ).solution
        ),
    },
}
WRONG = {
    check.principal_components: [
        (lambda z, count: along(z, count).abs(), "Column 0 of your result is something else"),
        (lambda z, count: torch.linalg.svd(centred(z))[0][:, :count], "is 0.071·component 0"),
        (lambda z, count: by_covariance(z, count, lambda V: V), "Column 0 of your result is component 4"),
        (lambda z, count: along(z, count) + 1, "Column 0 of your result is mean + component 0"),
        (lambda z, count: along(z, count, of=lambda z: z), "is 14.463·mean + 0.444·component 0"),
        (lambda z, count: along(z, count, directions=lambda V, count: V.T[:, :count]), "You multiply by columns"),
        (lambda z, count: along(z, count).T, "(count, N) = (3, 12), and (N, count)"),
    ],
    check.direction: [
        (lambda Z, y, penalty: Z.T @ y, "Your w is -1·token 0 + "),
        (lambda Z, y, penalty: Z.T @ torch.linalg.solve(Z @ Z.T, y), "Your w is that of λ = 0. Here λ is 2."),
        (lambda Z, y, penalty: solved(Z, y, penalty**2), "Your w is that of λ = 4. Here λ is 2."),
        (lambda Z, y, penalty: Z.T @ torch.linalg.solve(Z @ Z.T + penalty, y), "λ is added to every product"),
        (lambda Z, y, penalty: -solved(Z, y, penalty), "Your w is 0.169·token 0"),
        (lambda Z, y, penalty: solved(Z, y, penalty) + 1, "Your w is something else; it must be -0.169·token 0"),
        (lambda Z, y, penalty: solved(Z, y, penalty)[:, None], "(D, 1) = (9, 1), and (D,)"),
        (lambda Z, y, penalty: torch.linalg.solve(Z @ Z.T + penalty * torch.eye(len(y)), y), "(n,) = (5,), and (D,)"),
        (lambda Z, y, penalty: torch.linalg.solve(Z.T @ Z + penalty * torch.eye(len(y)), y), "The size of tensor a"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)
