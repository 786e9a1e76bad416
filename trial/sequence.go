package trial

import "math"

// How arms are compared
//
// What is compared is the mean logarithm of cycle times: a ratio of arms is the exponential of a difference, a stall that takes a
// thousand times as long does not drown all others, and no assumption is made of the times' distribution but that sessions' means
// have a variance.
//
// Cycles of one session resemble each other, so that they do not count one by one: each session gives one observation, the mean over its
// cycles, all sessions with the same weight. To be valid under peeking, an observation may not change any more once it counts. It is
// therefore closed when the session ends, or after its first 32 cycles, whatever comes first; and since a connection of a pool may live
// for weeks, it is closed once more after 1024 and 32768 cycles, for comparisons of their own. Each of the three comparisons has a share
// of the error probability (Bonferroni), so that all three hold together and the narrowest may be told. When users, schemas or hosts
// are assigned to arms instead of sessions, these take the sessions' place, as only their assignment was left to chance.
//
// For one comparison let the arms have n and m observations with means a, b and variances s², t², and k = nm/(n+m). The interval is
//
//	a - b ± se · √( ν (c - 1) / (1 - c w) ),   w = 1/(1 + k g),   c = (1/(α √w))^(2/(ν+1)),
//
// and unbounded when c w ≥ 1, which it is as long as there are too few observations. The standard error se and the degrees of freedom ν
// are those of the pooled variance (ν = n+m-2) or Welch's and Satterthwaite's (se² = s²/n + t²/m), whichever makes the interval wider:
// the former fails when the arm with fewer sessions varies more, the latter when two or three of them are alike by chance. It is the set of differences that the anytime-valid
// t-test does not reject: the Bayes factor with the right Haar prior for the scale and a normal prior with variance g for the difference
// in units of the standard deviation,
//
//	√w · ((1 + x)/(1 + w x))^((ν+1)/2),   x = (a - b)²/(ν se²),
//
// is a nonnegative martingale of mean 1 under equality, however the observations come in (Lai, "On confidence sequences", Annals of
// Statistics 4, 1976; Rouder et al., "Bayesian t tests for accepting and rejecting the null hypothesis", Psychonomic Bulletin & Review 16,
// 2009; Pérez-Ortiz et al., "E-statistics, group invariance and anytime-valid testing", Annals of Statistics 52, 2024), and by Ville's
// inequality it ever exceeds 1/α with a probability of at most α. This is exact for normal observations of equal variance. For others it
// is asymptotic: for large ν it becomes the normal mixture
//
//	a - b ± se · √( 2 (1 + 1/(k g)) · log(√(1 + k g)/α) )
//
// of Robbins, which Waudby-Smith et al. ("Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics
// 52, 2024, theorem 2.2) prove for means of any distribution with finite variance. The tests simulate what comes of it.

const (
	alpha = 0.05
	// prior is g: small values make the interval narrow for small differences among many sessions, great ones need fewer sessions for great
	// differences. With 4 a pool of six connections in each arm can give a verdict; a thousand sessions in each lose 6 % of the width.
	prior = 4
)

// closings are the numbers of cycles after which a session's observation is closed, spends their shares of alpha.
var (
	closings = [...]int64{32, 1024, 32768}
	spends   = [len(closings)]float64{0.6, 0.2, 0.2}
)

// moments sum up observations, by Welford's method.
type moments struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	M2   float64 `json:"m2"` // sum of the squares of the distances from the mean
}

func (m *moments) add(x float64) {
	m.N++
	d := x - m.Mean
	m.Mean += d / float64(m.N)
	m.M2 += d * (x - m.Mean)
}

// merge adds the observations of another.
func (m *moments) merge(o moments) {
	if o.N == 0 {
		return
	}
	n := float64(m.N + o.N)
	d := o.Mean - m.Mean
	m.Mean += d * float64(o.N) / n
	m.M2 += o.M2 + d*d*float64(m.N)*float64(o.N)/n
	m.N += o.N
}

// series are the closed observations of an arm, for each of the closings.
type series [len(closings)]moments

func (s *series) merge(o *series) {
	for i := range s {
		s[i].merge(o[i])
	}
}

// cluster is the observation of one session that is not closed yet.
type cluster struct {
	n    int64
	mean float64
	next uint8 // of closings
}

// add adds the value of a cycle; true: s has got an observation.
func (c *cluster) add(x float64, s *series) bool {
	c.n++
	c.mean += (x - c.mean) / float64(c.n)
	if int(c.next) == len(closings) || c.n < closings[c.next] {
		return false
	}
	s[c.next].add(c.mean)
	c.next++
	return true
}

// end closes it: the session has ended.
func (c *cluster) end(s *series) bool {
	if c.n == 0 {
		return false
	}
	for ; int(c.next) < len(closings); c.next++ {
		s[c.next].add(c.mean)
	}
	return true
}

// interval is a difference of means with its bounds.
type interval struct {
	difference float64
	half       float64 // +Inf: no bounds yet
	n          int64   // observations of both arms
}

func (i interval) low() float64  { return i.difference - i.half }
func (i interval) high() float64 { return i.difference + i.half }

// compare returns the difference a - b as the comparison tells it that is narrowest.
func compare(a, b *series) interval {
	best := interval{half: math.Inf(1)}
	for l := range closings {
		if i := difference(a[l], b[l], alpha*spends[l]); l == 0 || i.half < best.half {
			best = i
		}
	}
	return best
}

// difference returns the anytime-valid interval of the difference of two means.
func difference(a, b moments, alpha float64) interval {
	i := interval{difference: a.Mean - b.Mean, half: math.Inf(1), n: a.N + b.N}
	if a.N < 2 || b.N < 2 {
		return i
	}
	n, m := float64(a.N), float64(b.N)
	k := n * m / (n + m)
	va, vb := a.M2/(n-1)/n, b.M2/(m-1)/m
	welch := va + vb
	if welch <= 0 {
		return i // nothing is known of the noise
	}
	i.half = max(half(welch, welch*welch/(va*va/(n-1)+vb*vb/(m-1)), k, alpha), half((a.M2+b.M2)/(n+m-2)/k, n+m-2, k, alpha))
	return i
}

// half returns half of the interval's width for a squared standard error with nu degrees of freedom.
func half(variance, nu, k, alpha float64) float64 {
	w := 1 / (1 + k*prior)
	c := math.Pow(1/(alpha*math.Sqrt(w)), 2/(nu+1))
	if c*w >= 1 {
		return math.Inf(1)
	}
	return math.Sqrt(variance * nu * (c - 1) / (1 - c*w))
}
