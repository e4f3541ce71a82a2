package inspect

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forbidden is the reason of what the caller may not read.
const forbidden = "forbidden"

// errLate is the error of a kind that the caller had no time left for.
var errLate = errors.New("not read in time")

// errCut is the error of a kind of which there was time for some objects only.
type errCut struct{ read int }

func (e errCut) Error() string {
	return fmt.Sprintf("the first %d were read, and there was no time for the others", e.read)
}

// reason words an error for people: one line, and one word where rights are lacking.
func reason(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return forbidden
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	if u := (*neturl.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the request that met it
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// isUnknown says that the API server does not know the caller.
func isUnknown(err error) bool { return apierrors.IsUnauthorized(err) }

// isAnonymous says that the caller came without a name, and may not do this without one.
func isAnonymous(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"system:anonymous"`)
}
