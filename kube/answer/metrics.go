package answer

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metrics are for whoever may get /metrics.
func (a *asking) metrics() (any, error) {
	ok, err := a.s.reviews.may(a.Context(), a.user, nil, &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, say(apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("no right to get /metrics")))
	}
	if a.s.text == nil {
		return plain(""), nil
	}
	text, err := a.s.text()
	return plain(text), err
}
