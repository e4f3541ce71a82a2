package diagnose

import "fmt"

var cloudQuotaCheck = Check{
	Cause: "cloud-quota", Layer: L1, Owner: Capacity, Stage: Place, Rank: 56,
	Title:   "The cloud account may not have more machines",
	Meaning: "A machine was asked for, and the provider refused because a quota of the account is used up. There may be machines enough.",
	Remedy:  "Have the provider raise the quota of the account, or give back machines that are not needed.",
	Not:     "Try another zone: the quota is the same there.",
	Find:    cloudQuota,
}

func cloudQuota(c *Case) []Finding {
	return c.autoscalerFindings(cloudNoQuota, func(who string, x autoscalerFault) string {
		return fmt.Sprintf("a quota of the cloud account leaves no machine for %s: %s", who, cloudText(cloudSaid(x.code, x.text)))
	})
}
