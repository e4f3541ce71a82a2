package l1

import (
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var reservationNotStartedCheck = check.Check{
	Cause: "reservation-not-started", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 52,
	Title:   "The reserved capacity has not started",
	Meaning: "The pool gets its machines from a reservation that is bought and has not begun. Until then the provider gives none of it.",
	Remedy:  "Wait until it starts, or let the pool use machines on demand until then.",
	Not:     "The reservation is used up.",
	Find: func(c *check.Case) []check.Finding {
		return slices.Concat(reserved(c, "reservation-not-started"), supply.Told(c, supply.CloudReservedEarly))
	},
}
