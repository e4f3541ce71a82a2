package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const block = `
apiVersion: berth.dev/v1alpha1
kind: Reservation
metadata: {name: block}
spec:
  provider: aws
  id: cr-0a1b2c3d4e5f60718
  instanceType: p5en.48xlarge
  gpus: {model: H200, count: 8}
  instances: 4
  zone: us-east-2a
  start: "2026-11-01T11:30:00Z"
  end: "2026-11-29T11:30:00Z"
  match: targeted
  price: {perInstanceHour: "63.296"}
status: {state: active, available: 1, observedAt: "2026-11-17T06:00:00Z", reported: {Tags: team=ml}}
`

// TestReservationIsValidated has the API server's own validation refuse what nobody can have bought.
func TestReservationIsValidated(t *testing.T) {
	validate := serverValidation(t, v1alpha1.ReservationCRD)
	if errs := validate(parse(t, block)); len(errs) > 0 {
		t.Fatalf("refused: %v", errs.ToAggregate())
	}
	for _, c := range []struct{ was, now, want string }{
		{"provider: aws", "provider: amazon", "spec.provider"},
		{"count: 8", "count: 0", "spec.gpus.count"},
		{"instances: 4", "instances: -1", "spec.instances"},
		{`end: "2026-11-29`, `end: "2026-10-29`, "end must be after start"},
		{`end: "2026-11-29T11:30:00Z"`, "end: soon", "spec.end"},
		{"match: targeted", "match: mine", "spec.match"},
		{`"63.296"`, `"63.2961234"`, "perInstanceHour"},
		{`"63.296"`, `"-1"`, "perInstanceHour"},
		{`"63.296"`, `"63.296", currency: dollars`, "currency"},
		{"state: active", "state: lost", "status.state"},
		{"available: 1", "available: -1", "status.available"},
		{"team=ml", strings.Repeat("x", 600), "a value 512"},
		{"instanceType: p5en.48xlarge", "instanceType: ''", "spec.instanceType"},
	} {
		errs := validate(parse(t, strings.Replace(block, c.was, c.now, 1)))
		if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.now, errs.ToAggregate(), c.want)
		}
	}
}

// TestPoolSupply holds Validate to what it says of reservations and prices.
func TestPoolSupply(t *testing.T) {
	for _, c := range []struct {
		reservations []string
		price, spot  *v1alpha1.Price
		want         string
	}{
		{reservations: []string{"a", "b"}, price: &v1alpha1.Price{PerInstanceHour: "1.5", Currency: "EUR"}},
		{reservations: []string{"a", "a"}, want: "spec.reservations[1]"},
		{reservations: []string{"A b"}, want: "spec.reservations[0]"},
		{price: &v1alpha1.Price{PerInstanceHour: "1,5"}, want: "spec.price.perInstanceHour"},
		{price: &v1alpha1.Price{PerInstanceHour: "1", Currency: "$"}, want: "spec.price.currency"},
		{spot: &v1alpha1.Price{PerInstanceHour: "1e3"}, want: "spec.spotPrice.perInstanceHour"},
	} {
		p := &v1alpha1.Pool{}
		p.Name, p.Spec.NodeNames, p.Spec.Reservations, p.Spec.Price, p.Spec.SpotPrice = "pool", []string{"a"}, c.reservations, c.price, c.spot
		v1alpha1.Default(p)
		errs := v1alpha1.Validate(p)
		if !about(errs, c.want) {
			t.Errorf("%v %v: got %v, want %q", c.reservations, c.price, errs.ToAggregate(), c.want)
		}
	}
}

// about says whether the one error is of the field; "": there is none.
func about(errs field.ErrorList, at string) bool {
	if at == "" {
		return len(errs) == 0
	}
	return len(errs) == 1 && errs[0].Field == at
}
