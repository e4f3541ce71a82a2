package diagnose

import "fmt"

var cloudStockoutCheck = Check{
	Cause: "cloud-stockout", Layer: L1, Owner: Capacity, Stage: Place, Rank: 57,
	Title:   "The cloud has no such machine",
	Meaning: "A machine was asked for, and the provider answered that it has none of that type in that place. The account's quota is not the reason.",
	Remedy:  "Allow other zones or machine types, reserve capacity, or wait: the provisioner asks again.",
	Not:     "Raise the quota.",
	Find:    cloudStockout,
}

func cloudStockout(c *Case) []Finding {
	return c.autoscalerFindings(cloudNoCapacity, func(who string, x autoscalerFault) string {
		return fmt.Sprintf("the provider has no machine for %s: %s", who, cloudText(cloudSaid(x.code, x.text)))
	})
}
