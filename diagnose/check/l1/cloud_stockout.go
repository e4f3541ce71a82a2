package l1

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var cloudStockoutCheck = check.Check{
	Cause: "cloud-stockout", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 57,
	Title:   "The cloud has no such machine",
	Meaning: "A machine was asked for, and the provider answered that it has none of that type in that place. The account's quota is not the reason.",
	Remedy:  "Allow other zones or machine types, reserve capacity, or wait: the provisioner asks again.",
	Not:     "Raise the quota.",
	Find:    cloudStockout,
}

func cloudStockout(c *check.Case) []check.Finding {
	found := supply.AutoscalerFindings(c, supply.CloudNoCapacity, func(who string, x supply.AutoscalerFault) string {
		return fmt.Sprintf("the provider has no machine for %s: %s", who, supply.CloudText(supply.CloudSaid(x.Code, x.Text)))
	})
	return slices.Concat(found, supply.LaunchShortages(c, supply.CloudNoCapacity), supply.Shortages(c, supply.CloudNoCapacity))
}
