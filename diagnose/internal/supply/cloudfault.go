package supply

import (
	"regexp"
	"strings"
)

// cloudFault is why a cloud gave no machine.
type cloudFault string

const (
	CloudNoCapacity cloudFault = "stockout" // it has none
	CloudNoQuota    cloudFault = "quota"    // the account may not have more
	CloudReserved   cloudFault = "reserved" // the reservation is used up
	CloudNoMachine  cloudFault = "machine"  // it did, and no node came of it in time
	CloudRefused    cloudFault = "refused"  // it did not, for a reason that none of these words tells
	cloudOther      cloudFault = ""
)

// The codes and words of clouds. Codes decide: the rest of such messages is nearly the same.
var (
	cloudQuotaCodes    = regexp.MustCompile(`(?i)v?cpu-?LimitExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded|SpotQuotaExceeded|FleetQuotaExceeded|MaxFleetCountExceeded|QUOTA_?EXCEEDED|exceeding approved .*quota|quota (was |has been )?exceeded|exceeded quota|quotas? .*exceeded`)
	cloudStockoutCodes = regexp.MustCompile(`(?i)InsufficientInstanceCapacity|UnfulfillableCapacity|InsufficientReservedInstanceCapacity|[A-Z_]*RESOURCE_POOL_EXHAUSTED[A-Z_]*|stockout|INSUFFICIENT_CAPACITY|\w*AllocationFailed|OverconstrainedAllocationRequest|OverconstrainedZonalAllocationRequest|SkuNotAvailable|out of resources|out of capacity`)
	cloudReservedCodes = regexp.MustCompile(`ReservationCapacityExceeded`)
	cloudNone          = regexp.MustCompile(`(?i)insufficient[ _]?capacity\w*`) // said with every code, so it counts without one
	cloudWait          = regexp.MustCompile(`(?i)^timeout$|timed out`)
)

// cloudFaultOf reads a code or a message, and returns the words that decided. Of several, the one that is first.
func cloudFaultOf(text string) (fault cloudFault, code string) {
	at := len(text) + 1
	for _, kind := range []struct {
		fault cloudFault
		words *regexp.Regexp
	}{{CloudReserved, cloudReservedCodes}, {CloudNoQuota, cloudQuotaCodes}, {CloudNoCapacity, cloudStockoutCodes}, {CloudNoMachine, cloudWait}} {
		if m := kind.words.FindStringIndex(text); m != nil && m[0] < at {
			fault, code, at = kind.fault, text[m[0]:m[1]], m[0]
		}
	}
	if m := cloudNone.FindString(text); fault == cloudOther && m != "" {
		return CloudNoCapacity, m
	}
	return fault, code
}

// CloudText is the text up to so many letters.
func CloudText(text string) string {
	const most = 240
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// CloudSaid is the provider's message from the code on, which comes first where it is not in it.
func CloudSaid(code, text string) string {
	if at := strings.Index(text, code); at >= 0 {
		if strings.Contains(code, " ") {
			return text
		}
		return text[at:]
	}
	return strings.TrimSuffix(code+": "+text, ": ")
}
