package bench

import (
	"errors"
	"sync"
	"time"
)

// A crew is several connections of one arm that work at the same time, each in a thread of its own. It sees to it that they
// begin together.
type crew struct {
	bench   *bench
	clients []*client
}

// hire connects n clients. A failure leaves none.
func (b *bench) hire(l login, n int) (*crew, error) {
	c := &crew{bench: b}
	for range n {
		client, err := b.connect(l)
		if err != nil {
			c.close()
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	return c, nil
}

func (c *crew) close() {
	for _, client := range c.clients {
		c.bench.release(client)
	}
}

// work lets every client call step until d is over, at least once, and returns how often they did per second together and
// how often in all. step is given the client's number.
func (c *crew) work(d time.Duration, step func(number int, client *client) error) (rate float64, steps int, err error) {
	counts := make([]int, len(c.clients))
	rates := make([]float64, len(c.clients))
	errs := make([]error, len(c.clients))
	start := make(chan struct{})
	var ready, done sync.WaitGroup
	for i, client := range c.clients {
		ready.Add(1)
		done.Go(func() {
			defer ownThread()()
			ready.Done()
			<-start
			begin := time.Now()
			elapsed := time.Duration(0)
			for counts[i] == 0 || elapsed < d {
				if errs[i] = step(i, client); errs[i] != nil {
					return
				}
				counts[i]++
				elapsed = time.Since(begin)
			}
			rates[i] = float64(counts[i]) / elapsed.Seconds()
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	for i := range counts {
		rate += rates[i]
		steps += counts[i]
	}
	return rate, steps, errors.Join(errs...)
}

// alone runs f in a thread of its own.
func alone(f func() error) error {
	defer ownThread()()
	return f()
}
