package convert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// sealBytes is how much of the hash a seal has.
const sealBytes = 16

// Seal signs records with a secret that only the scheduler knows. A seal is of one pod, by UID: it cannot be copied to
// another, nor to a pod of the same name that is created anew.
type Seal struct{ key []byte }

// NewSeal makes a Seal of the cluster's secret. The key is derived, so that nothing else that is signed with the secret can
// pass for a seal.
func NewSeal(secret []byte) *Seal {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(v1alpha1.KeySeal))
	return &Seal{key: h.Sum(nil)}
}

// Sign puts the record's text and its seal on the Binding of the pod with the UID.
func (s *Seal) Sign(b *corev1.Binding, uid types.UID, text string) {
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.KeyTerms, text)
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.KeySeal, s.of(uid, text))
}

func (s *Seal) of(uid types.UID, text string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(uid))
	h.Write([]byte{0}) // not part of any UID
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil)[:sealBytes])
}

// Open returns the text of the record that the pod was bound with; "": it has none, or one that was not sealed for it. A nil
// Seal, of one who does not know the secret, takes the text as it is.
func (s *Seal) Open(p *corev1.Pod) string {
	text := p.Annotations[v1alpha1.KeyTerms]
	if p.Spec.NodeName == "" || text == "" { // only a Binding has terms sealed
		return ""
	}
	if s != nil && !hmac.Equal([]byte(p.Annotations[v1alpha1.KeySeal]), []byte(s.of(p.UID, text))) {
		return ""
	}
	return text
}
