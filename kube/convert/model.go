package convert

import (
	"regexp"
	"strings"
)

var (
	// chip is the short name of a data-centre GPU: T4, L40S, A100, GB200.
	chip = regexp.MustCompile(`^[A-Z]{1,2}[0-9]{1,3}[A-Z]?$`)
	// maker is a word of a product's name that tells nothing.
	maker = regexp.MustCompile(`^(NVIDIA|TESLA|GEFORCE|GENERATION)$`)
	// build is a word that tells variants of one model apart: its board, its memory.
	build = regexp.MustCompile(`^(SXM[0-9]?|PCIE|NVL|HBM[0-9]E?|[0-9]+GB?)$`)
)

// shortModel brings the names of one GPU model together: H100 is what people write, NVIDIA-H100-80GB-HBM3
// what the node's label says. A name with a word that is not understood, such as a MIG or vGPU profile, stays
// as it is, and an instance of MIG keeps its profile: A100-MIG-1g.5gb. variant says that the name told more than the model, which is now
// lost.
func shortModel(name string) (short string, variant bool) {
	if card, profile, ok := strings.Cut(name, "-MIG-"); ok && migProfile.MatchString(profile) {
		short, variant = shortModel(card)
		return short + "-MIG-" + profile, variant
	}
	var rest []string
	for _, word := range strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return strings.ContainsRune("-_ ", r) }) {
		switch {
		case maker.MatchString(word):
		case build.MatchString(word):
			variant = true
		default:
			rest = append(rest, word)
		}
	}
	switch {
	case len(rest) == 1 && chip.MatchString(rest[0]):
		return rest[0], variant
	case len(rest) > 0 && strings.HasPrefix(rest[0], "RTX"): // RTX 4090, RTX A6000, RTX 6000 Ada
		return strings.Join(rest, ""), variant
	}
	return name, false
}

// models reads a list of alternatives: short names, best first, each once.
func models(list string) []string {
	var out []string
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(list, ",") {
		short, _ := shortModel(strings.TrimSpace(name))
		if short != "" && !seen[short] {
			seen[short] = true
			out = append(out, short)
		}
	}
	return out
}
