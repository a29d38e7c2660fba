def multiply(a, b):
    if not a or not b:
        return []
    product = [0] * (len(a) + len(b) - 1)
    for i in range(len(a)):
        for j in range(len(b)):
            product[i + j] += a[i] * b[j]
    return product
