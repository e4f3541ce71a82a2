package l1

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var cloudQuotaCheck = check.Check{
	Cause: "cloud-quota", Layer: check.L1, Owner: check.Capacity, Stage: check.Place, Rank: 56,
	Title:   "The cloud account may not have more machines",
	Meaning: "A machine was asked for, and the provider refused because a quota of the account is used up. There may be machines enough.",
	Remedy:  "Have the provider raise the quota of the account, or give back machines that are not needed.",
	Not:     "Try another zone: the quota is the same there.",
	Find:    cloudQuota,
}

func cloudQuota(c *check.Case) []check.Finding {
	found := supply.AutoscalerFindings(c, supply.CloudNoQuota, func(who string, x supply.AutoscalerFault) string {
		return fmt.Sprintf("a quota of the cloud account leaves no machine for %s: %s", who, supply.CloudText(supply.CloudSaid(x.Code, x.Text)))
	})
	return slices.Concat(found, supply.LaunchShortages(c, supply.CloudNoQuota), supply.Shortages(c, supply.CloudNoQuota))
}
