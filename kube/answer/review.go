package answer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// reviews asks the API server whose a token is and who may do what, and remembers its answers for a short while.
type reviews struct {
	client kubernetes.Interface
	users  memory[authenticationv1.UserInfo]
	rights memory[bool]
}

const (
	// remembered is how long an answer counts: a right that is taken away is gone that much later.
	remembered = 10 * time.Second
	// mostRemembered bounds the answers kept of each kind.
	mostRemembered = 4096
)

// errToken is a token that the API server does not know.
var errToken = errors.New("the token is not valid")

// token says whose the token is.
func (v *reviews) token(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	return v.users.get(key, func() (authenticationv1.UserInfo, error) {
		r, err := v.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		}, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.UserInfo{}, fmt.Errorf("ask the API server whose the token is: %w", err)
		}
		if !r.Status.Authenticated || r.Status.User.Username == "" {
			return authenticationv1.UserInfo{}, errToken
		}
		return r.Status.User, nil
	})
}

// may says whether the user may do what the attributes say. Exactly one of them is not nil.
func (v *reviews) may(ctx context.Context, user authenticationv1.UserInfo, on *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(user.Extra)),
		ResourceAttributes: on, NonResourceAttributes: path,
	}
	for k, values := range user.Extra {
		spec.Extra[k] = authorizationv1.ExtraValue(values)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	return v.rights.get(sha256.Sum256(text), func() (bool, error) {
		r, err := v.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask the API server who may read this: %w", err)
		}
		return r.Status.Allowed, nil
	})
}

// memory keeps answers, not errors. Keys are hashes, so that it holds no token.
type memory[T any] struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]kept[T]
}

type kept[T any] struct {
	value T
	until time.Time
}

// get returns what is remembered under the key, or else asks. Two who ask at once both ask.
func (m *memory[T]) get(key [sha256.Size]byte, ask func() (T, error)) (T, error) {
	now := time.Now()
	m.mu.Lock()
	k, ok := m.kept[key]
	m.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.value, nil
	}
	value, err := ask()
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= mostRemembered {
		m.kept = make(map[[sha256.Size]byte]kept[T])
	}
	m.kept[key] = kept[T]{value, now.Add(remembered)}
	return value, nil
}
