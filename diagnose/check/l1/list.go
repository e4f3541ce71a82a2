package l1

import "github.com/berth-dev/berth/diagnose/check"

// Checks are the causes of this layer. Order does not matter: package diagnose sorts them by stage and rank.
var Checks = []*check.Check{
	&capacityQueuedCheck,
	&cloudQuotaCheck,
	&cloudStockoutCheck,
	&reservationConsumedElsewhereCheck,
	&reservationEndedCheck,
	&reservationNotStartedCheck,
	&reservationUnusedByProvisionerCheck,
	&reservationWrongTypeCheck,
	&reservationWrongZoneCheck,
}
