// A map of nodes with values of 16 to 4300 bytes, a quarter of the operations deleting, and a ring of 64 trees beside
// it: work for a concurrent collector. Usage: churn OPERATIONS KEYS
package main

import (
	"fmt"
	"os"
	"strconv"
)

type node struct {
	value       []byte
	left, right *node
}

func grow(depth int) *node {
	if depth == 0 {
		return nil
	}
	return &node{left: grow(depth - 1), right: grow(depth - 1)}
}

func (n *node) weight() int {
	if n == nil {
		return 0
	}
	return 1 + n.left.weight() + n.right.weight()
}

func main() {
	operations, _ := strconv.Atoi(os.Args[1])
	keys, _ := strconv.Atoi(os.Args[2])
	state := uint64(88172645463325252)
	draw := func() uint64 { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state }
	store := make(map[int]*node, keys)
	var ring [64]*node
	sum := 0
	for i := 0; i < operations; i++ {
		key := int(draw() % uint64(keys))
		if draw()%4 == 0 {
			delete(store, key)
		} else {
			size := 16 + draw()%284
			if draw()%20 == 0 {
				size = 16 + draw()%4284
			}
			store[key] = &node{value: make([]byte, size)}
		}
		if i%256 == 0 {
			place := i / 256 % 64
			sum += ring[place].weight()
			ring[place] = grow(8 + int(draw()%6))
		}
	}
	total := 0
	for _, n := range store {
		total += len(n.value)
	}
	fmt.Println(len(store), total, sum)
}
