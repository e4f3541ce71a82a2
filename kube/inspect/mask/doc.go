// Package mask takes out of text what may be secret: values that stand beside the name of a secret, texts that look like
// a credential, and every word that cannot be told from a random one. It knows text alone, no objects; kube/inspect calls
// it for everything that goes into a bundle.
//
// It works in three steps, each on what the one before left:
//
//  1. Rules find credentials by their look: those of gitleaks, used as data, and a few of our own (looks.go, rules.go).
//  2. Names find what stands beside them, below them in a table, or before them: password=X, "token": "X", --api-key X,
//     <secret>X</secret>, "X is the password" (names.go, named.go, strangers.go). Beside a name that says nothing, of
//     whatever language, only words leave that step 3 lets a Strict Masker have.
//  3. Words are what is left. A word leaves if it is known to be harmless: a number, a quantity, a word of Kubernetes'
//     and schedulers' messages, the name of an object, and, unless the Masker is Strict, any word that reads like
//     one of a language rather than like a key (words.go, likely.go).
//
// The third step is the one that holds against shapes that nobody thought of; the first two catch secrets that are words.
package mask
