package l1

import (
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var reservationWrongTypeCheck = check.Check{
	Cause: "reservation-wrong-type", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 53,
	Title:   "The reserved capacity is of another machine type",
	Meaning: "The pool draws on a reservation of another machine type than its own, so that no machine of the reservation can become its node.",
	Remedy:  "Have a pool of the reserved type draw on the reservation, or reserve machines of the pool's type.",
	Not:     "Buy more capacity.",
	Find: func(c *check.Case) []check.Finding {
		return slices.Concat(reserved(c, "reservation-wrong-type"), supply.Told(c, supply.CloudReservedType))
	},
}
