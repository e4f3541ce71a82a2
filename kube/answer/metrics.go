package answer

import (
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics are the server's own and, while it leads, the scheduler's, for whoever may get /metrics.
func (a *asking) metrics() (any, error) {
	ok, err := a.s.reviews.may(a.Context(), a.user, nil, &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, say(apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("no right to get /metrics")))
	}
	away, _ := a.s.away()
	all := []Metric{
		{Name: "leading", Help: "Whether this process leads."},
		{Name: "api_unreachable_seconds", Help: "How long the API server has been unreachable; 0 while it answers.", Value: away.Seconds()},
		{Name: "questions_total", Help: "Questions asked of this process.", Counter: true, Value: float64(a.s.asked.Load())},
		{Name: "questions_refused_total", Help: "Questions for which there was no time.", Counter: true, Value: float64(a.s.refused.Load())},
	}
	if source := a.s.source.Load(); source != nil {
		all[0].Value = 1
		all = append(all, (*source).Metrics()...)
	}
	if a.s.text == nil {
		return plain(prometheus(all)), nil
	}
	more, err := a.s.text()
	if err != nil {
		return nil, err
	}
	return plain(prometheus(all) + more), nil
}

// prometheus writes the metrics in Prometheus' text format.
func prometheus(all []Metric) string {
	var b strings.Builder
	for _, m := range all {
		kind := "gauge"
		if m.Counter {
			kind = "counter"
		}
		name := "berth_scheduler_" + m.Name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, m.Help, name, kind, name, m.Value)
	}
	return b.String()
}
