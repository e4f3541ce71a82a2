package v1alpha1

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultCurrency is that of prices that name none.
const DefaultCurrency = "USD"

// maxReservations bounds those that one pool draws on.
const maxReservations = 64

var (
	priceText    = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,6})?$`)
	currencyText = regexp.MustCompile(`^[A-Z]{3}$`)
)

// validateSupply looks at what pays for a pool's machines.
func validateSupply(s *PoolSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	at, seen := spec.Child("reservations"), make(map[string]bool)
	if len(s.Reservations) > maxReservations {
		errs = append(errs, field.TooMany(at, len(s.Reservations), maxReservations))
	}
	for i, name := range s.Reservations {
		switch {
		case seen[name]:
			errs = append(errs, field.Duplicate(at.Index(i), name))
		case len(name) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0:
			errs = append(errs, field.Invalid(at.Index(i), name, "must be the name of a Reservation: at most 63 of a-z, 0-9, - and ."))
		}
		seen[name] = true
	}
	if s.Price != nil {
		errs = append(errs, validatePrice(s.Price, spec.Child("price"))...)
	}
	if s.SpotPrice != nil {
		errs = append(errs, validatePrice(s.SpotPrice, spec.Child("spotPrice"))...)
	}
	return errs
}

func validatePrice(p *Price, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !priceText.MatchString(p.PerInstanceHour) {
		errs = append(errs, field.Invalid(at.Child("perInstanceHour"), p.PerInstanceHour, `must be an amount such as "63.296": at most nine digits, and six after the point`))
	}
	if p.Currency != "" && !currencyText.MatchString(p.Currency) {
		errs = append(errs, field.Invalid(at.Child("currency"), p.Currency, fmt.Sprintf("must be a code of three letters, such as %s", DefaultCurrency)))
	}
	return errs
}
