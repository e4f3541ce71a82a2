package supply

import (
	"regexp"
	"strings"
)

// cloudFault is why a cloud gave no machine.
type cloudFault string

const (
	CloudNoCapacity    cloudFault = "stockout"          // it has none
	CloudNoQuota       cloudFault = "quota"             // the account may not have more
	CloudReserved      cloudFault = "reserved"          // the reservation is used up
	CloudReservedOver  cloudFault = "reservation-over"  // it has ended, or is not there
	CloudReservedEarly cloudFault = "reservation-early" // it has not begun
	CloudReservedZone  cloudFault = "reservation-zone"  // it is in another zone
	CloudReservedType  cloudFault = "reservation-type"  // it is of other machines
	CloudNoMachine     cloudFault = "machine"           // it did, and no node came of it in time
	CloudRefused       cloudFault = "refused"           // it did not, for a reason that none of these words tells
	cloudOther         cloudFault = ""
)

// The codes and words of clouds. Codes decide: the rest of such messages is nearly the same.
var (
	cloudQuotaCodes    = regexp.MustCompile(`(?i)v?cpu-?LimitExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded|SpotQuotaExceeded|FleetQuotaExceeded|MaxFleetCountExceeded|QUOTA_?EXCEEDED|exceeding approved .*quota|quota (was |has been )?exceeded|exceeded quota|quotas? .*exceeded`)
	cloudStockoutCodes = regexp.MustCompile(`(?i)InsufficientInstanceCapacity|UnfulfillableCapacity|InsufficientReservedInstanceCapacity|[A-Z_]*RESOURCE_POOL_EXHAUSTED[A-Z_]*|stockout|INSUFFICIENT_CAPACITY|\w*AllocationFailed|OverconstrainedAllocationRequest|OverconstrainedZonalAllocationRequest|SkuNotAvailable|out of resources|out of capacity`)
	cloudNone          = regexp.MustCompile(`(?i)insufficient[ _]?capacity\w*`) // said with every code, so it counts without one
	cloudWait          = regexp.MustCompile(`(?i)^timeout$|timed out`)
)

// What messages of clouds mean, where none of their codes is known: that the account may not have more, or that there are none. Addresses,
// and requests to the cloud's API, run out in the same words: of these nothing is said here.
var (
	cloudMeansQuota = regexp.MustCompile(`(?i)\bquotas?\b[^.;]{0,80}\b(reached|exceeded|exhausted|used up|insufficient|not enough)\b|\b(exceed\w*|beyond|insufficient|not enough|out of|reached)\b[^.;]{0,60}\b(quotas?|service limits?)\b|quotas?_?(reached|exceeded|exhausted|insufficient)|insufficient_?quota|\blimits?( \w+){0,6} (reached|exceeded)\b|exceeded (your|the) (maximum|limit)|\w*limit_?exceeded\b`)
	cloudMeansStock = regexp.MustCompile(`(?i)nostock|out of stock|sold ?out|out of (host )?capacity|\b(not enough|insufficient|no more|no available|no spare|no free|no)( \w+){0,4} (capacity|machines?|instances?|hosts?|nodes|inventory|stock|resources)\b|\b(capacity|stock|inventory|sku|instance type|machine type|vm size|accelerator)\b[^.;]{0,60}\b(unavailable|exhausted|depleted|not available|not currently available)\b|\b(cannot|can't|could not|couldn't|unable to|failed to) (allocate|provision|fulfil\w*|satisfy|obtain)\b[^.;]{0,60}\b(resources|instances?|machines?|capacity|hosts?)\b|\b(not have|lacks?) (enough|sufficient)\b[^;]{0,80}\b(capacity|machines?|instances?|hosts?|resources)\b|resources?[_ ]unavailable|no valid host|allocation\w*failure|cannot-be-fulfilled|capacity_?(unavailable|exhausted|insufficient|notfound|isnotfound)`)
	cloudElse       = regexp.MustCompile(`(?i)\baddress(es)?\b|addressesin|\bip[ _](space|range)|\bsubnet|request ?limit|rate ?limit|throttl|not authorized|permission|forbidden|credential`)
)

// AtMax says whether the text tells that a pool, or a cluster, has as many nodes as somebody set for it.
func AtMax(text string) bool { return atMax.MatchString(text) }

var atMax = regexp.MustCompile(`(?i)\bmax(imum)?\b[^.;]{0,30}\b(node ?pools?|node ?groups?|pools?|nodes|cluster|size)\b[^.;]{0,40}\b(reached|exceeded)\b|\b(node ?pool|node ?group|pool)\b[^.;]{0,30}\bat (its )?max(imum)?\b`)

// cloudFaultOf reads a code or a message, and returns the words that decided. Of several clauses, the first one that has any: what one says of a
// reservation explains the code that it has.
func cloudFaultOf(text string) (fault cloudFault, code string) {
	for clause := range clauses(text) {
		if fault, code := reservationFaultOf(clause); fault != cloudOther {
			return fault, code
		}
		if fault, code := cloudCodeIn(clause); fault != cloudOther {
			return fault, code
		}
	}
	if m := cloudNone.FindString(text); m != "" {
		return CloudNoCapacity, m
	}
	if cloudElse.MatchString(text) {
		return cloudOther, ""
	}
	if m := cloudMeansQuota.FindString(text); m != "" {
		return CloudNoQuota, m
	}
	if m := cloudMeansStock.FindString(text); m != "" {
		return CloudNoCapacity, m
	}
	return cloudOther, ""
}

// cloudCodeIn is the first code in the text.
func cloudCodeIn(text string) (fault cloudFault, code string) {
	at := len(text) + 1
	for _, kind := range []struct {
		fault cloudFault
		words *regexp.Regexp
	}{{CloudNoQuota, cloudQuotaCodes}, {CloudNoCapacity, cloudStockoutCodes}, {CloudNoMachine, cloudWait}} {
		if m := kind.words.FindStringIndex(text); m != nil && m[0] < at {
			fault, code, at = kind.fault, text[m[0]:m[1]], m[0]
		}
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
