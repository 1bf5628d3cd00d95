"""Power of the machines of target `hosts`, through their BMCs."""
